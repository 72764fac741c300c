// Replay of a schedule (cs_replay): start and end of its rows, to the nanosecond those of simulator/processes.py.
//
// Rows of known duration need no clock. A stream runs ahead for as long as the ends that it waits for are known, also future ones, since
// nothing delays a row once it runs; whatever sets an end wakes the streams that wait for it. A stream waits for one end at a time, so
// that the waiters of one end are a list with one link a stream. Rows that take shared resources end by the clock, unless it is known when
// they start that whoever may run beside them leaves them enough. O(rows + dependencies) where none ends by the clock.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "agenda.h"
#include "collectives.h"
#include "plan.h"
#include "pool.h"
#include "regions.h"
#include "rivals.h"
#include "sharing.h"

namespace {

constexpr int kWaits = 3;  // streams of which each waits for the next that are followed

using cs::Hosts;
using cs::kNone;
using cs::Collective;
using cs::Rows;

class Replay {
 public:
  Replay(const Rows& rows, const Hosts& hosts, const cs::Takes& takes, const cs::Rivals& rivals, const cs::Regions& regions, int64_t* start,
         int64_t* end)
      : rows_(rows), hosts_(hosts), takes_(takes), rivals_(rivals), regions_(regions), agenda_(regions), sharing_(takes, rows.streams),
        collectives_(rows, regions), start_(start), end_(end), next_(rows.count, kNone), waiting_(rows.count, kNone), line_(rows.streams),
        link_(rows.streams + hosts.count, kNone), began_(hosts.turns, -1), turn_waiting_(hosts.turns, kNone), host_(hosts.count) {}

  void run() {
    std::fill(start_, start_ + rows_.count, -1);
    std::fill(end_, end_ + rows_.count, -1);
    line_up();
    drain();
    const auto happen = [&](int32_t s, int64_t now) {
      region_ = regions_.of(s);
      now_ = now;
      if (!sharing_.active(s)) return enter(s, now);
      sharing_.leave(s);
      end_sharing(s, now);
      drain();
    };
    const auto settle = [&](int64_t now) {
      sharing_.settle(now, [&](int32_t s, int64_t time) { agenda_.set(s, time); });
    };
    agenda_.run([&](int32_t region, int64_t now) { return collectives_.clear(region, now, start_, takes_); }, happen, settle);
  }

 private:
  struct Line {
    int64_t row = -1, at = 0, ready = 0, sharing_row = -1;  // the next row, its next dependency, its earliest start; the row that shares
  };
  struct Host {
    int64_t turn = 0, end = 0, free = 0;
  };

  void line_up() {
    std::vector<int64_t> last(rows_.streams, -1);
    for (int64_t i = 0; i < rows_.count; ++i) {
      const int32_t s = rows_.stream[i];
      if (last[s] < 0) line_[s].row = i, line_[s].at = rows_.dep_ptr[i]; else next_[last[s]] = static_cast<int32_t>(i);
      last[s] = i;
      if (rows_.joins(i)) collectives_.add(i);
    }
    for (int64_t t = hosts_.turns - 1; t >= 0; --t) {  // a host's turns stand together
      Host& h = host_[hosts_.host[t]];
      if (!h.end) h.end = t + 1;
      h.turn = t;
    }
    for (int64_t s = rows_.streams + hosts_.count - 1; s >= 0; --s) work_.push_back(static_cast<int32_t>(s));
  }

  void drain() {
    while (!work_.empty()) {
      const int32_t waiter = work_.back();
      work_.pop_back();
      if (waiter < rows_.streams) advance(waiter); else launch(waiter);
    }
  }

  void wait(int32_t& waiting, int32_t waiter) {
    link_[waiter] = waiting;
    waiting = waiter;
  }

  void wake(int32_t& waiting) {
    for (int32_t waiter = waiting; waiter != kNone; waiter = link_[waiter]) work_.push_back(waiter);
    waiting = kNone;
  }

  // Sets the starts of a host's turns, for as long as they are known.
  void launch(int32_t waiter) {
    Host& h = host_[waiter - rows_.streams];
    for (; h.turn < h.end; ++h.turn) {
      const int64_t gate = hosts_.gate[h.turn];
      if (gate >= 0 && end_[gate] < 0) return wait(waiting_[gate], waiter);
      const int64_t begin = gate >= 0 ? std::max(h.free, end_[gate]) : h.free;
      began_[h.turn] = begin;
      h.free = begin + hosts_.length[h.turn];
      wake(turn_waiting_[h.turn]);
    }
  }

  // Runs a stream's rows, for as long as their starts and ends are known.
  void advance(int32_t s) {
    Line& line = line_[s];
    if (regions_.count()) agenda_.touch(regions_.of(s));
    while (line.row >= 0) {
      const int64_t i = line.row;
      for (const int64_t stop = rows_.dep_ptr[i + 1]; line.at < stop; ++line.at) {
        const int64_t d = rows_.dep[line.at];
        if (end_[d] < 0) return wait(waiting_[d], s);
        line.ready = std::max(line.ready, end_[d]);
      }
      if (hosts_.launch(i)) {
        const int64_t turn = hosts_.turn[i];
        if (began_[turn] < 0) return wait(turn_waiting_[turn], s);
        line.ready = std::max(line.ready, began_[turn] + hosts_.after[i]);
      }
      int64_t owner = i;
      if (rows_.joins(i)) {
        Collective& c = collectives_.of(i);
        if (!collectives_.join(s, i, line.ready)) return wait(c.joined, s);
        line.ready = c.latest;
        owner = c.first;
      }
      if (takes_.any(owner, rows_.ns[owner]) && !alone(owner, line.ready + rows_.ns[owner])) return begin_sharing(s, owner);
      finish(s, line.ready);
    }
  }

  // Returns whether it is known that no other row slows a row down, of a collective the first one, which ends at `end` then, nor is slowed
  // down by it: it needs no clock.
  bool alone(int64_t row, int64_t end) const {
    return rivals_.fits(row, [&, s = rows_.stream[row]](int32_t q) { return later(q, s, end); });
  }

  // Returns whether it is known that stream q starts no row before `end`, when the row at the head of stream s ends: its next row waits for
  // that one, or for one behind it, perhaps by way of other streams.
  bool later(int32_t q, int32_t s, int64_t end) const {
    for (int k = 0; k < kWaits; ++k) {
      const Line& line = line_[q];
      if (line.row < 0 || line.ready >= end) return true;
      if (line.at == rows_.dep_ptr[line.row + 1]) return false;
      const int64_t d = rows_.dep[line.at];
      if (end_[d] >= 0) return false;
      q = rows_.stream[d];
      if (q == s) return true;
    }
    return false;
  }

  // Starts a row that shares resources: the one at the head of s, the last of its collective that came. Events of a collective belong to
  // the stream of its first row.
  void begin_sharing(int32_t s, int64_t owner) {
    const int64_t begin = line_[s].ready;
    const int32_t at = rows_.stream[owner];
    if (rows_.joins(owner)) {
      Collective& c = collectives_.of(owner);
      wait(c.joined, s);
      for (int32_t waiter = c.joined; waiter != kNone; waiter = link_[waiter]) start_[line_[waiter].row] = begin;
    }
    start_[owner] = begin;
    line_[at].sharing_row = owner;
    const int64_t time = begin + takes_.delay[owner];
    if (time == now_ && regions_.of(at) == region_) enter(at, time); else agenda_.set(at, time);
  }

  // Starts the use of resources by the row with which stream s shares them.
  void enter(int32_t s, int64_t now) {
    const int64_t row = line_[s].sharing_row;
    const int64_t ns = rows_.ns[row] - takes_.delay[row];
    if (sharing_.enter(s, row, ns, now)) agenda_.set(s, now + ns);
  }

  // Ends the row with which stream s shared resources, and the other rows of its collective.
  void end_sharing(int32_t s, int64_t now) {
    const int64_t row = line_[s].sharing_row;
    if (!rows_.joins(row)) {
      close(s, now);
      return work_.push_back(s);
    }
    for (int32_t waiter = collectives_.of(row).joined, next; waiter != kNone; waiter = next) {
      next = link_[waiter];
      close(waiter, now);
      work_.push_back(waiter);
    }
  }

  // Runs the row at the head of s from `begin` on, and with it the collective that it completes.
  void finish(int32_t s, int64_t begin) {
    const int64_t i = line_[s].row;
    if (rows_.joins(i)) {
      for (int32_t waiter = collectives_.of(i).joined, next; waiter != kNone; waiter = next) {
        next = link_[waiter];
        start_[line_[waiter].row] = begin;
        close(waiter, begin + rows_.ns[line_[waiter].row]);
        work_.push_back(waiter);
      }
    }
    start_[i] = begin;
    close(s, begin + rows_.ns[i]);
  }

  // Prefetches what is read of a row that its stream runs after the next one: by the clock, rows of all streams take turns.
  void fetch(int32_t i) const {
    rows_.fetch(i);
    hosts_.fetch(i);
    takes_.fetch(i);
    __builtin_prefetch(start_ + i);
    __builtin_prefetch(end_ + i);
    __builtin_prefetch(&next_[i]);
    __builtin_prefetch(&waiting_[i]);
  }

  void close(int32_t s, int64_t end) {
    Line& line = line_[s];
    if (rows_.joins(line.row)) collectives_.leave(s);
    end_[line.row] = end;
    wake(waiting_[line.row]);
    line.ready = end;
    line.row = next_[line.row];
    line.at = line.row < 0 ? 0 : rows_.dep_ptr[line.row];
    if (line.row >= 0) takes_.fetch_entries(line.row);
    if (line.row >= 0 && next_[line.row] >= 0) fetch(next_[line.row]);
  }

  Rows rows_;
  Hosts hosts_;
  cs::Takes takes_;
  const cs::Rivals& rivals_;
  const cs::Regions& regions_;  // empty where nothing shares: no row has to wait for a clock
  cs::Agenda agenda_;
  cs::Sharing sharing_;
  cs::Collectives collectives_;
  int64_t *start_, *end_;
  std::vector<int32_t> next_, waiting_;  // of rows: the stream's next one; the first waiter for its end
  std::vector<Line> line_;
  std::vector<int32_t> link_;
  std::vector<int64_t> began_;
  std::vector<int32_t> turn_waiting_;
  std::vector<Host> host_;
  std::vector<int32_t> work_;
  int32_t region_ = -1;  // whose events happen, at now_
  int64_t now_ = -1;
};

bool below(const int64_t* numbers, int64_t count, int64_t least, int64_t most) {
  return std::all_of(numbers, numbers + count, [&](int64_t v) { return least <= v && v < most; });
}

bool sound(const Rows& r, const Hosts& h) {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  if (r.count < 0 || r.count >= most || r.streams < 0 || r.groups < 0 || h.turns < 0 || h.count < 0 || r.streams + h.count >= most) return false;
  if (r.count && (!r.stream || !r.ns || !r.dep_ptr || (r.dep_ptr[r.count] && !r.dep) || (h.turns && (!h.turn || !h.after)))) return false;
  if (h.turns && (!h.host || !h.length || !h.gate || !below(h.host, h.turns, 0, h.count) || !below(h.gate, h.turns, -1, r.count))) return false;
  if (r.collective && !below(r.collective, r.count, -1, r.groups)) return false;
  for (int64_t t = 1; t < h.turns; ++t) {
    if (h.host[t] < h.host[t - 1]) return false;
  }
  for (int64_t i = 0; i < r.count; ++i) {
    if (r.stream[i] < 0 || r.stream[i] >= r.streams || r.ns[i] < 0 || r.dep_ptr[i] > r.dep_ptr[i + 1]) return false;
    if (h.turns && (h.turn[i] < 0 || h.turn[i] >= h.turns)) return false;
    for (int64_t p = r.dep_ptr[i]; p < r.dep_ptr[i + 1]; ++p) {
      if (r.dep[p] < 0 || r.dep[p] >= r.count) return false;
    }
  }
  return true;
}

bool sound(const Rows& r, const Hosts& h, const cs::Takes& t) {
  if (!t.ptr) return true;
  if (t.resources < 0 || t.resources >= std::numeric_limits<int32_t>::max() - r.streams - h.count) return false;
  if (!t.delay || !t.demand || t.ptr[0] || (t.ptr[r.count] && (!t.resource || !t.share))) return false;
  for (int64_t i = 0; i < r.count; ++i) {
    if (t.ptr[i] > t.ptr[i + 1] || t.delay[i] < 0) return false;
    if (t.ptr[i] < t.ptr[i + 1] && !(t.demand[i] > 0 && std::isfinite(t.demand[i]))) return false;
    for (int64_t p = t.ptr[i]; p < t.ptr[i + 1]; ++p) {
      if (t.resource[p] < 0 || t.resource[p] >= t.resources || !(t.share[p] > 0 && t.share[p] <= 1)) return false;
    }
  }
  return true;
}

}  // namespace

int cs_replay(int64_t count, int64_t streams, const int32_t* stream, const int64_t* ns, int64_t groups, const int64_t* collective,
              const int64_t* dep_ptr, const int64_t* dep, int64_t turns, int64_t hosts, const int64_t* turn, const int64_t* after,
              const int64_t* host, const int64_t* length, const int64_t* gate, int64_t resources, const int64_t* delay, const double* demand,
              const int64_t* ptr, const int32_t* resource, const double* share, int64_t* out_start, int64_t* out_end) {
  const Rows rows{count, streams, groups, stream, ns, collective, dep_ptr, dep};
  const Hosts launching{turns, hosts, turn, after, host, length, gate};
  const cs::Takes takes{resources, delay, demand, ptr, resource, share};
  if (!sound(rows, launching) || !sound(rows, launching, takes) || (count && (!out_start || !out_end))) return CS_ERROR_ARGUMENT;
  return cs::guarded([&] {
    const cs::Rivals rivals(rows, takes);
    const cs::Regions regions(rows, launching, takes);
    Replay(rows, launching, takes, rivals, regions, out_start, out_end).run();
    return CS_OK;
  });
}
