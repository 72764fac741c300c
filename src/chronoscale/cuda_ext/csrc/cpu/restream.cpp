// One pass of the restreaming partitioner: events go, batch by batch in the order of time, to the part that has least to fetch for them.
//
// A part that has an event of a node in a batch reads the node's row, its latest events before the batch, and the rows of their other ends:
// once a batch, however many events of the node it has. What that costs is found once for each node of a batch; from then on an event of it
// costs nothing more where there is one already.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "pool.h"

namespace {

constexpr int32_t kShared = -1, kUnseen = -2;
constexpr int64_t kAhead = 8;  // events whose rows are fetched before they are needed
constexpr int64_t kMost = INT32_MAX;
constexpr size_t kRow = 0, kList = 1, kReads = 2;  // columns of what is known of a node's reads

struct Recent {
  int32_t neighbour, event, part;
};

struct Pass {
  int64_t nodes, parts, fanout, batch;
  double node_bytes, event_bytes, charge, batch_slack, total_slack;
  const double* pull;
  int32_t* node;
  Recent* recent;
  int64_t* degree;
  int32_t* reads;
  int64_t* slots;
  int64_t* load;
  int64_t* event_rows;

  int64_t known(int32_t v) const { return std::min(degree[v], fanout); }
  const Recent* begin(int32_t v) const { return recent + v * fanout; }
  const Recent* end(int32_t v) const { return begin(v) + known(v); }

  // Returns whether one of a node's events is among its latest.
  bool lists(int32_t v, int32_t event) const { return degree[v] <= fanout || event >= begin(v)[degree[v] % fanout].event; }

  void fetch(int32_t v) const {
    __builtin_prefetch(node + v);
    __builtin_prefetch(degree + v);
    __builtin_prefetch(recent + v * fanout);
    __builtin_prefetch(pull + v * parts);
  }
};

class Batch {
 public:
  Batch(const Pass& pass, int64_t most_events)
      : pass_(pass),
        root_(static_cast<size_t>(pass.nodes), -1),
        read_(root_.size() * width()),
        quota_(parts()),
        here_(parts() - kUnseen),
        there_(parts()),
        roots_of_(parts()),
        bytes_(2 * static_cast<size_t>(most_events) * parts()),
        placed_(bytes_.size()) {}

  // Adds the batches in which parts have read nodes' rows to the pass's.
  void finish() const {
    for (size_t v = 0; v < root_.size(); ++v) {
      for (size_t p = 0; p < parts(); ++p) pass_.reads[v * parts() + p] += read_[v * width() + kReads + p];
    }
  }

  void run(int64_t first, int64_t count, const int32_t* src, const int32_t* dst, int32_t* out) {
    set_quotas(first + count, count);
    for (int64_t e = 0; e < count; ++e) {
      if (e + kAhead < count) pass_.fetch(src[e + kAhead]), pass_.fetch(dst[e + kAhead]);
      out[e] = place(src[e], dst[e]);
    }
    for (int32_t part = 0; part < pass_.parts; ++part) read(part);
    for (int64_t e = 0; e < count; ++e) {
      const int32_t event = static_cast<int32_t>(first + e);
      remember(src[e], {dst[e], event, out[e]});
      if (dst[e] != src[e]) remember(dst[e], {src[e], event, out[e]});
    }
    for (const int32_t v : roots_) root_[v] = -1;
    roots_.clear();
  }

 private:
  const Pass& pass_;
  std::vector<int32_t> root_;                   // [nodes]: the node's place among the roots of the batch, -1: none of them
  std::vector<int32_t> read_;                   // [nodes, 2 + parts]: the last reading (a part of a batch) that read its row, and its list
                                                // as a root's; in how many each part has read its row. Together, as they are used
  std::vector<int64_t> quota_;                  // [parts]: events that a part may yet get in the batch
  std::vector<int32_t> here_, there_;           // of a root's recent events: other ends by home, from kUnseen on; events by part
  std::vector<int32_t> roots_;
  std::vector<std::vector<int32_t>> roots_of_;  // [parts]: those of which a part has an event
  std::vector<double> bytes_;                   // [roots, parts]: what a part has to fetch for a root
  std::vector<uint8_t> placed_;                 // [roots, parts]: whether it has an event of it in the batch
  int32_t reading_ = 0;

  size_t parts() const { return static_cast<size_t>(pass_.parts); }
  size_t width() const { return kReads + parts(); }
  int32_t* read_of(int32_t v) { return read_.data() + static_cast<size_t>(v) * width(); }

  void set_quotas(int64_t end, int64_t count) {
    const double share = static_cast<double>(pass_.parts), all = static_cast<double>(kMost);
    const double of_batch = std::ceil((1.0 + pass_.batch_slack) * static_cast<double>(count) / share);
    const double of_stream = (1.0 + pass_.total_slack) * static_cast<double>(end) / share;
    const int64_t most = static_cast<int64_t>(std::min(of_batch, all)), total = static_cast<int64_t>(std::min(of_stream, all)) + 1;
    const int64_t mean = (count + pass_.parts - 1) / pass_.parts;
    for (size_t p = 0; p < parts(); ++p) quota_[p] = std::min(most, std::max(total - pass_.load[p], mean));
  }

  // Returns where a root's bytes by part begin, once they are found.
  size_t look(int32_t v) {
    if (root_[v] >= 0) return static_cast<size_t>(root_[v]) * parts();
    root_[v] = static_cast<int32_t>(roots_.size());
    roots_.push_back(v);
    const size_t at = (roots_.size() - 1) * parts();
    const int32_t *const node = pass_.node, home = node[v], count = static_cast<int32_t>(pass_.parts);
    int32_t *const here = here_.data() - kUnseen, *const there = there_.data();  // other ends by home; events by part
    std::fill_n(here_.data(), here_.size(), 0), std::fill_n(there, there_.size(), 0);
    const Recent* const end = pass_.end(v);
    for (const Recent* past = pass_.begin(v); past != end; ++past) ++here[node[past->neighbour]], ++there[past->part];
    const int32_t known = static_cast<int32_t>(pass_.known(v)), away = known - here[kShared] + (home >= 0);
    double* const bytes = bytes_.data() + at;
    for (int32_t p = 0; p < count; ++p) bytes[p] = pass_.node_bytes * (away - here[p] - (home == p)) + pass_.event_bytes * (known - there[p]);
    std::fill_n(placed_.data() + at, count, 0);
    return at;
  }

  int32_t place(int32_t u, int32_t v) {
    const size_t of_u = look(u), of_v = look(v);
    const double *pull_u = pass_.pull + u * pass_.parts, *pull_v = pass_.pull + v * pass_.parts;
    int32_t part = -1;
    double least = 0.0;
    for (size_t p = 0; p < parts(); ++p) {
      if (quota_[p] < 1) continue;
      double cost = pass_.charge * static_cast<double>(pass_.load[p]) + (bytes_[of_u + p] - pull_u[p]);
      if (u != v) cost += bytes_[of_v + p] - pull_v[p];
      if (part < 0 || cost < least || (cost == least && pass_.load[p] < pass_.load[part])) part = static_cast<int32_t>(p), least = cost;
    }
    --quota_[part], ++pass_.load[part];
    for (const auto& [end, at] : {std::pair(u, of_u + part), std::pair(v, of_v + part)}) {
      if (!std::exchange(placed_[at], 1)) bytes_[at] = 0.0, roots_of_[part].push_back(end);
      if (pass_.node[end] == kUnseen) pass_.node[end] = part;
    }
    return part;
  }

  // Counts a row that a part reads, the first time that it does for the batch. Returns what is known of its node's reads.
  const int32_t* read_row(int32_t v, int32_t part) {
    int32_t* const read = read_of(v);
    read[kReads + part] += std::exchange(read[kRow], reading_) != reading_;
    return read;
  }

  // Counts what a part reads for the batch, each row once: rows of nodes, and events that are in other parts.
  void read(int32_t part) {
    ++reading_;
    int64_t rows = 0;
    for (const int32_t v : roots_of_[part]) {
      read_row(v, part);
      for (const Recent* past = pass_.begin(v); past != pass_.end(v); ++past) {
        const int32_t* const read = read_row(past->neighbour, part);
        rows += past->part != part;
        if (read[kList] == reading_) rows -= past->part != part && pass_.lists(past->neighbour, past->event);
      }
      read_of(v)[kList] = reading_;
      pass_.slots[v * pass_.parts + part] += pass_.known(v);
    }
    *pass_.event_rows += rows;
    roots_of_[part].clear();
  }

  void remember(int32_t v, Recent event) { pass_.recent[v * pass_.fanout + pass_.degree[v]++ % pass_.fanout] = event; }
};

bool sound(const Pass& pass, int64_t events, const int32_t* src, const int32_t* dst) {
  const auto fits = [&](int32_t v) { return v >= 0 && v < pass.nodes && pass.node[v] >= kUnseen && pass.node[v] < pass.parts; };
  for (int64_t e = 0; e < events; ++e) {
    if (!fits(src[e]) || !fits(dst[e])) return false;
  }
  return true;
}

}  // namespace

int cs_restream(int64_t nodes, int64_t parts, int64_t fanout, int64_t batch, int64_t first, int64_t events, const int32_t* src,
                const int32_t* dst, double node_bytes, double event_bytes, double charge, double batch_slack, double total_slack,
                const double* pull, int32_t* node, int32_t* recent, int64_t* degree, int32_t* reads, int64_t* slots, int64_t* load,
                int64_t* event_rows, int32_t* out_part) {
  if (nodes < 0 || parts < 1 || parts > kMost || fanout < 1 || batch < 1 || first < 0 || events < 0 || first > kMost - events) return CS_ERROR_ARGUMENT;
  for (const double number : {node_bytes, event_bytes, charge, batch_slack, total_slack}) {
    if (!(number >= 0.0) || !std::isfinite(number)) return CS_ERROR_ARGUMENT;
  }
  if (events == 0) return CS_OK;
  if (!src || !dst || !pull || !node || !recent || !degree || !reads || !slots || !load || !event_rows || !out_part) return CS_ERROR_ARGUMENT;
  const Pass pass{nodes, parts, fanout, batch, node_bytes, event_bytes, charge, batch_slack, total_slack, pull, node,
                  reinterpret_cast<Recent*>(recent), degree, reads, slots, load, event_rows};
  if (!sound(pass, events, src, dst)) return CS_ERROR_ARGUMENT;
  return cs::guarded([&] {
    Batch batches(pass, std::min(batch, events));
    for (int64_t at = 0; at < events; at += batch) {
      batches.run(first + at, std::min(batch, events - at), src + at, dst + at, out_part + at);
    }
    batches.finish();
    return CS_OK;
  });
}
