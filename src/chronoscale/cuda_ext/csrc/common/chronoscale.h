// The C ABI of chronoscale's native kernels. No torch, no Python: pointers, sizes, and a status.
//
// Dense matrices are row-major. A sparse matrix is CSR: indptr [rows + 1] (indptr[0] == 0), indices [nnz], values [nnz] or null for all
// ones. Ids are trusted: the caller checks them (graph.CSR.check). bf16: x is bfloat16, as its bits. In functions of gradients `into` is
// the gradient of the result, and `into_x` or `grad_x` that of operand x.
#pragma once

#include <stdint.h>

#define CS_ABI_VERSION 16
#define CS_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

enum cs_status {
  CS_OK = 0,
  CS_ERROR_ARGUMENT = 1,     // a size is negative or a needed pointer is null
  CS_ERROR_MEMORY = 2,       // scratch memory could not be had; nothing is ever thrown
  CS_ERROR_UNAVAILABLE = 3,  // no driver, or no device (CUDA library); a processor that is not there (cs_bind)
  CS_ERROR_DEVICE = 4        // the launch failed (CUDA library only); see cs_cuda_last_error
};

// ---- libchronoscale_cpu ----

CS_API int cs_version(void);
CS_API const char* cs_instruction_set(void);  // "avx512f", "avx2" or "baseline"
CS_API int cs_set_threads(int threads);       // >= 1; how many threads one call may use, never more than 1024
CS_API int cs_get_threads(void);

// out[v, :] = sum over e in [indptr[v], indptr[v+1]) of values[e] * x[indices[e], :]
CS_API int cs_aggregate_f32(int64_t rows, const int64_t* indptr, const int32_t* indices, const float* values,
                            const float* x, int64_t width, float* out);
CS_API int cs_aggregate_f64(int64_t rows, const int64_t* indptr, const int32_t* indices, const float* values,
                            const double* x, int64_t width, double* out);
CS_API int cs_aggregate_bf16(int64_t rows, const int64_t* indptr, const int32_t* indices, const float* values,
                             const uint16_t* x, int64_t width, float* out);

// For each r: sums[targets[r], :] += (the sum above for row r), and touched[r, :] = the new sums[targets[r], :].
// targets are distinct. Where fresh [rows] (or null: all zeros) is 1, the old sum counts as zero and is not read.
CS_API int cs_increment_f32(int64_t rows, const int32_t* targets, const uint8_t* fresh, const int64_t* indptr,
                            const int32_t* indices, const float* values, const float* x, int64_t width, float* sums,
                            float* touched);
CS_API int cs_increment_f64(int64_t rows, const int32_t* targets, const uint8_t* fresh, const int64_t* indptr,
                            const int32_t* indices, const float* values, const double* x, int64_t width, double* sums,
                            double* touched);
CS_API int cs_increment_bf16(int64_t rows, const int32_t* targets, const uint8_t* fresh, const int64_t* indptr,
                             const int32_t* indices, const float* values, const uint16_t* x, int64_t width, float* sums,
                             float* touched);

// Rebuilds an adjacency after a change. Row v of (indptr, indices) is v, then ascending sources. slots [rows]: which row of the change
// (change_ptr, change: ascending sources) is v's, or -1. steps [changes + 1]: sums of the signs (+1 added, -1 removed)
// before each change. out_values [..] or null = column[source] * row[v] (row null: all ones), rounded once from double.
// out_ptr and the sizes follow from the row lengths plus the signs. A change of edges that are not there, or already
// are, and a row that does not begin with its node, is CS_ERROR_ARGUMENT; nothing is written outside a row.
CS_API int cs_rebuild(int64_t rows, const int64_t* indptr, const int32_t* indices, const int32_t* slots,
                      const int64_t* change_ptr, const int32_t* change, const int64_t* steps, const double* column,
                      const double* row, const int64_t* out_ptr, int32_t* out_indices, float* out_values);

// Aggregates as cs_aggregate_f64, with weights in double.
CS_API int cs_weigh_f64(int64_t rows, const int64_t* indptr, const int32_t* indices, const double* weights, const double* x,
                        int64_t width, double* out);

// Attention of one head: score(e) = leaky_relu(left[indices[e]] + right[row]), row = targets[r] or, targets null, r.
// maximum[r] = the largest of base[r] (null: -infinity) and, if `running`, the scores of r's entries of sign +1 (sign null:
// all +1); 0 where that is -infinity. weights[e] = sign[e] * exp(score(e) - maximum[r]); denominator[r] = their sum;
// removed_maximum[r] (or null) = 1 if an entry of sign -1 scores base[r] or within a few roundings of it.
CS_API int cs_softmax_f32(int64_t rows, const int32_t* targets, const int64_t* indptr, const int32_t* indices, const int8_t* sign,
                          const float* base, int running, const float* left, const float* right, double slope, float* weights,
                          float* maximum, float* denominator, uint8_t* removed_maximum);
CS_API int cs_softmax_f64(int64_t rows, const int32_t* targets, const int64_t* indptr, const int32_t* indices, const int8_t* sign,
                          const double* base, int running, const double* left, const double* right, double slope, double* weights,
                          double* maximum, double* denominator, uint8_t* removed_maximum);

// Gradients of cs_softmax: edges[e] = weights[e] * slope'(score(e)) * (into_total[r, :] . z[indices[e], :] + into_denominator[r]), the
// gradient of an entry's left + right, and row[r] = the sum of r's.
CS_API int cs_softmax_grad_f32(int64_t rows, const int32_t* targets, const int64_t* indptr, const int32_t* indices, const float* left,
                               const float* right, double slope, const float* weights, const float* z, int64_t width,
                               const float* into_total, const float* into_denominator, float* edges, float* row);
CS_API int cs_softmax_grad_f64(int64_t rows, const int32_t* targets, const int64_t* indptr, const int32_t* indices, const double* left,
                               const double* right, double slope, const double* weights, const double* z, int64_t width,
                               const double* into_total, const double* into_denominator, double* edges, double* row);

// Assigns groups to GPUs by REAL's Algorithm 1 (REAL-G). reuse[i * width + k] is what is saved when groups i and i + k + 1 share a GPU.
// max_targets 0 tries every target; otherwise that many, evenly spaced in rank. Of targets that waste alike the first one is taken, with
// by_reuse the one that saves most. threads 0: as cs_set_threads. Numbers are finite and not negative, and so small that no sum of loads
// overflows.
CS_API int cs_greedy(int64_t groups, const double* times, int64_t width, const double* reuse, int64_t gpus,
                     int64_t max_targets, int by_reuse, int threads, int32_t* out_iteration, int32_t* out_gpu, int32_t* out_slot);

// Computes the most weight of a matching of n groups in a row of which those up to `width` apart may pair: weight[i * width + k] for groups
// i and i + k + 1. out_mate[i]: the partner, -1 for none. width <= 12: 2^width states a group.
CS_API int cs_band_matching(int64_t n, int64_t width, const double* weight, int32_t* out_mate, double* out_total);

// Improves a matching (REAL-G+): exchanges partners, splits and joins pairs of `mate` (-1: none) until `work` is used up; `mate` gets the
// best matching. Moves are compared by makespan (alpha an iteration) + pull * total load / gpus; one that worsens that by up to
// `threshold`, falling to 0, is taken.
CS_API int cs_exchange(int64_t n, const double* times, int64_t width, const double* reuse, int64_t gpus, double alpha,
                       double pull, double threshold, int64_t work, uint64_t seed, int32_t* mate, double* out_makespan);

// Replays a schedule's `count` rows (below 2^31 with streams and hosts): start and end of each, ns from 0; -1 where it never starts. Rows
// of one stream run in their order, each `ns` long, from when those of dep [dep_ptr[i], dep_ptr[i + 1]) have ended; rows of one collective
// (null, or -1: none; below `groups`) begin together. turns > 0: row i is of host turn[i] and starts no earlier than after[i] behind its
// turn's start (-2^60 or less: whenever); turns stand together by host and start one after another, length[t] each, and not before row
// gate[t] (-1: none) has ended. ptr not null: what row i (of a collective its first) does beyond delay[i] takes share [ptr[i], ptr[i + 1])
// of resources, multiples of 2^-36, and slows down where they are overloaded: max-min fairness of the served parts of demand[i]. Rows of a
// collective last equally long then.
CS_API int cs_replay(int64_t count, int64_t streams, const int32_t* stream, const int64_t* ns, int64_t groups, const int64_t* collective,
                     const int64_t* dep_ptr, const int64_t* dep, int64_t turns, int64_t hosts, const int64_t* turn, const int64_t* after,
                     const int64_t* host, const int64_t* length, const int64_t* gate, int64_t resources, const int64_t* delay,
                     const double* demand, const int64_t* ptr, const int32_t* resource, const double* share, int64_t* out_start, int64_t* out_end);

// Computes the turns of hosts, one a rank, that launch the kernels of `count` rows in their order, launch_ns each, for cs_replay: row i is
// of turn out_turn[i] and starts out_after[i] behind its turn's start or later (-2^60: it has no kernels). A turn ends with an iteration
// (the next one's gate is the last optimiser's step, `steps`, of the iteration before the last), and before a row that is not on_host, has
// kernels, and waits, by dep or behind the row before it in its lane, for a row on_host of its rank that no launch of the rank has waited
// for. Room for 2 * count turns, of which there are out_turns[0].
CS_API int cs_launches(int64_t count, int64_t hosts, int64_t lanes, const int32_t* rank, const uint8_t* lane, const int32_t* iteration,
                       const int64_t* kernels, const int64_t* ns, const uint8_t* on_host, const uint8_t* steps, const int64_t* dep_ptr,
                       const int64_t* dep, const int64_t* launch_ns, int64_t* out_turn, int64_t* out_after, int64_t* out_host,
                       int64_t* out_length, int64_t* out_gate, int64_t* out_turns);

// Builds a T-CSR (TGL, section 4.1): row v holds the events of node v in their order, with the node at the other end: those that it sends
// and, `both`, those that it receives; one that it sends to itself once. Events come in blocks, of which the first is number `first`, below
// 2^31 in all. count: adds their entries to degree [nodes]. fill: writes neighbor and event [room] at cursor [nodes], where each row's next
// entry goes, and moves it on.
CS_API int cs_tcsr_count(int64_t nodes, int64_t events, const int32_t* src, const int32_t* dst, int both, int64_t* degree);
CS_API int cs_tcsr_fill(int64_t nodes, int64_t events, int64_t first, const int32_t* src, const int32_t* dst, int both, int64_t room,
                        int64_t* cursor, int32_t* neighbor, int32_t* event);

// Samples temporal neighbours: for each root, up to `fanout` (at most 1,024) entries of row node[i] among the events below before[i] and,
// unless `since` is null, not below since[i], in their order: the latest, or `uniform` all alike, drawn without replacement by (seed, node,
// before) and the slot only. Slots beyond out_count[i] are -1; so are all of a root of node -1. Rows' events ascend. threads 0: the crew
// (cs_bind), else as cs_set_threads; the result does not depend on it.
CS_API int cs_sample(int64_t nodes, const int64_t* indptr, const int32_t* neighbor, const int32_t* event, int64_t entries, int64_t roots,
                     const int32_t* node, const int32_t* before, const int32_t* since, int64_t fanout, int uniform, uint64_t seed,
                     int threads, int32_t* out_neighbor, int32_t* out_event, int32_t* out_count);

// Samples neighbours by boundary decay (MemShare, section 3.3) for part `rank`: of the last `fanout` entries below before[i], as
// cs_sample's, those whose event is of the part (event_part [events]) and whose node is (node_part [nodes]; below 0: of all parts) are
// sampled, and of the R others each independently with p = min(max(theta R e_k / sum e, least), 1), e_k = exp(decay (t_k - t of the latest
// of them)), by a coin of (seed, node, before, event) only; out_weight is 1 / p of these, else 1. Others whose node is of the part or of all
// or has node_cached [nodes] >= 0, and whose event is of the part or has event_cached [events] >= 0 (null: all are taken to), always have a
// slot, of weight 1; out_cached is 1 of those that coins leave out, else 0. node_cached null: none has. `at_least_one` (and theta above 0): where
// none of the last `fanout` is of the part or cached, coins are tossed under the condition that one is sampled at least, with probabilities p / q,
// q = 1 - prod (1 - p), and weights q / p. `complete`: slots that are then free get the latest entries of the part among the 16 * fanout
// before. theta of 1 or more samples all. t [events]: int64 if `int64_times`, else double; ascending. Otherwise as cs_sample.
CS_API int cs_boundary(int64_t nodes, const int64_t* indptr, const int32_t* neighbor, const int32_t* event, int64_t entries, int64_t events,
                       const void* t, int int64_times, const int32_t* node_part, const int32_t* event_part, int32_t rank, int64_t roots,
                       const int32_t* node, const int32_t* before, int64_t fanout, double theta, double decay, double least, int at_least_one,
                       int complete, uint64_t seed, const int32_t* node_cached, const int32_t* event_cached, int threads,
                       int32_t* out_neighbor, int32_t* out_event, float* out_weight, uint8_t* out_cached, int32_t* out_count);

// Starts a crew of `count` (1 to 1,024) threads, thread i bound to processor cpus[i], in place of an earlier one; the caller is not bound.
// While there is one, cs_sample with threads 0 gives thread i the i-th of `count` parts of its roots, of equal size, rounded up (OpenMP's
// static schedule in TGL's sampler, FAST section 4.4), and its caller waits; results are the same. CS_ERROR_UNAVAILABLE: this process may
// not run on a processor; then there is no crew. After a fork the child has none. cs_bound: how many threads, 0 without one.
CS_API int cs_bind(int count, const int32_t* cpus);
CS_API int cs_unbind(void);
CS_API int cs_bound(void);

// Simulates `caches` LRU caches of `sets` sets of `ways` lines, empty at first: access i reads line[i] through cache[i], in set line %
// sets. out_hit[i]: 1 for a hit.
CS_API int cs_caches(int64_t accesses, const int64_t* line, const int32_t* cache, int64_t caches, int64_t sets, int64_t ways,
                     uint8_t* out_hit);

// Assigns parts to events src -> dst at `time` (not negative, never falling), of `nodes` nodes, in one pass (MemShare, section 3.2;
// `average`: DisTGL's rule instead). Carried from call to call, of the same number of parts: node [nodes], a part, -1 where all parts share
// it, -2 before its first event; attention [nodes, parts] and since [nodes], zeros at first; of each part, zeros at first, node_counts,
// event_counts and clock. decay, not negative: of a past event's weight, by the unit of time.
CS_API int cs_stream_parts(int64_t nodes, int64_t parts, int64_t events, const int32_t* src, const int32_t* dst, const double* time,
                           int average, double decay, int32_t* node, double* attention, double* since, int64_t* node_counts, int64_t* event_counts,
                           double* clock, int32_t* out_part);

// Assigns parts to events src -> dst in one pass of a restreaming partitioner, in global batches of `batch` events of all parts, whole ones
// but for the last of the last call; `first` is the number of the first event, a multiple of `batch`. In a batch a part reads the rows of
// its events' ends, of their `fanout` latest events before the batch, and of those events' other ends. An event goes to the part with room
// that has fewest bytes to fetch for those of its ends that the part has no event of in the batch, less pull [nodes, parts] of both ends,
// plus `charge` for each event of the part; of equals to the one with fewest events, the lowest. Room: a part's events of a batch of n
// exceed neither ceil((1 + batch_slack) * n / parts) nor, beyond n / parts rounded up, 1 + (1 + total_slack) * events so far / parts in all.
// Carried from call to call: node [nodes], a part, -1 where all parts share it, -2 before its first event, with which it goes; zeros at
// first, recent [nodes, fanout, 3] (other end, event, part) and degree [nodes]; reads [nodes, parts], batches in which a part reads a
// node's row; slots [nodes, parts], recent events that it reads for a node; load [parts], events; event_rows [1], events read from other
// parts, each once a batch and part. 2^31 events at most.
CS_API int cs_restream(int64_t nodes, int64_t parts, int64_t fanout, int64_t batch, int64_t first, int64_t events, const int32_t* src,
                       const int32_t* dst, double node_bytes, double event_bytes, double charge, double batch_slack, double total_slack,
                       const double* pull, int32_t* node, int32_t* recent, int64_t* degree, int32_t* reads, int64_t* slots, int64_t* load,
                       int64_t* event_rows, int32_t* out_part);

// Computes FAST's compressed triple (section 5) of ids [rows, width], none negative: the unique ids, ascending, out_unique; the place of
// each id among them, out_place; of the slots that are filled, the first counts[row] of each row, one row after another, which begin at
// out_indptr [rows + 1]. counts null: all slots are, and out_indptr may be null. out_unique and out_place have room for rows * width, below
// 2^31; *out_count: unique ids. The result does not depend on threads, 0: as cs_set_threads.
CS_API int cs_distinct(int64_t rows, int64_t width, const int32_t* ids, const int32_t* counts, int threads, int32_t* out_unique,
                       int64_t* out_place, int64_t* out_indptr, int64_t* out_count);

// Attends from targets to their sampled slots (TGAT, section 3.2). Slot k of target t is x_k = [source[slot[t, k], :], edge[t, k, :],
// cos(frequency * elapsed[t, k] + phase)], X = width + edges + clock numbers; the angle is computed in double. weights[t, h, k] = softmax
// over the slots of mask[t, k] of query[t, h, :] . x_k, 0 for the others; out[t, h, :] = sum over k of weights[t, h, k] * keep[t, h, k] *
// x_k. by_head: query, out and their gradients are [heads, targets, X] in memory. keep null: ones; fanout at most 1,024; edge, frequency
// and phase, elapsed null where there are none. Other slots are not read. A slot outside [0, sources) is CS_ERROR_ARGUMENT. Without
// targets, slots or numbers nothing is written.
#define CS_SLOTS(T)                                                                                                             \
  int64_t targets, int64_t fanout, int64_t heads, int64_t width, int64_t edges, int64_t clock, int64_t sources, const T *query, \
      const T *source, const int64_t *slot, const uint8_t *mask, const T *elapsed, const T *edge, const T *frequency,           \
      const T *phase, const T *keep, int by_head
CS_API int cs_slots_f32(CS_SLOTS(float), float* weights, float* out);
CS_API int cs_slots_f64(CS_SLOTS(double), double* weights, double* out);

// Gradients of cs_slots from `into` [targets, heads, X], each null where it is not needed: frequency and phase both or none. Sums over
// targets have an order that depends only on the sizes; into_source [sources, width] is added to.
CS_API int cs_slots_grad_f32(CS_SLOTS(float), const float* weights, const float* into, float* into_query, float* into_source,
                             float* into_edge, float* into_frequency, float* into_phase);
CS_API int cs_slots_grad_f64(CS_SLOTS(double), const double* weights, const double* into, double* into_query, double* into_source,
                             double* into_edge, double* into_frequency, double* into_phase);

// Computes the gates of a GRU (Cho et al. 2014, in torch's form) from products of the input and of the memory, from_input and from_memory
// [rows, 3 * hidden], for reset, update and candidate: out = n + z * (memory - n), n = tanh(from_input_n + reset * from_memory_n); rows
// outside the mask have their old memory. grad: from `into` [rows, hidden] to from_input and from_memory, and, unless null, to memory.
#define CS_GATES(T) int64_t rows, int64_t hidden, const T *from_input, const T *from_memory, const T *memory, const uint8_t *mask
CS_API int cs_gates_f32(CS_GATES(float), float* out);
CS_API int cs_gates_f64(CS_GATES(double), double* out);
CS_API int cs_gates_grad_f32(CS_GATES(float), const float* into, float* grad_from_input, float* grad_from_memory, float* grad_memory);
CS_API int cs_gates_grad_f64(CS_GATES(double), const double* into, double* grad_from_input, double* grad_from_memory, double* grad_memory);

// One step of an LSTM after its products (gates i, f, g, o, as torch has them): with pre = products[read[r]] + from_state[r], and c of row
// parent[r],
//   gates = sigmoid(i), sigmoid(f), tanh(g), sigmoid(o);  new_c = f * c + i * g;  new_h = o * tanh(new_c).
// products [*, 4 * hidden]; from_state, gates [rows, 4 * hidden]; c [*, hidden]; the rest [rows, hidden]. read and parent null: row r;
// from_state and c null: zeros. gates may be the memory of from_state, and of products where read is null.
// grad: from grad_h and grad_c (null: zeros) to what the activations were applied to: written to grad_from_state, which may be the memory of
// gates, and, unless null, added to row read[r] of grad_products: no two rows of a call may have the same. grad_old_c [rows, hidden], or
// null: of row r's c, to be added up by parent.
#define CS_LSTM_STEP(T)                                                                                                                   \
  int64_t rows, int64_t hidden, const T *products, const int32_t *read, const T *from_state, const T *c, const int32_t *parent, T *gates, \
      T *new_h, T *new_c
#define CS_LSTM_STEP_GRAD(T)                                                                                                         \
  int64_t rows, int64_t hidden, const T *gates, const T *c, const int32_t *parent, const T *new_c, const T *grad_h, const T *grad_c, \
      const int32_t *read, T *grad_products, T *grad_from_state, T *grad_old_c
CS_API int cs_lstm_step_f32(CS_LSTM_STEP(float));
CS_API int cs_lstm_step_f64(CS_LSTM_STEP(double));
CS_API int cs_lstm_step_grad_f32(CS_LSTM_STEP_GRAD(float));
CS_API int cs_lstm_step_grad_f64(CS_LSTM_STEP_GRAD(double));

// The same of a GRU (r, z, n), with from_state of 3 * hidden numbers, `stride` from one row to the next (0: one row for all), and h of row
// parent[r]:
//   r, z = sigmoid(products + from_state);  n = tanh(products_n + r * from_state_n);  new_h = n + z * (h - n).
// h null: zeros. saved [rows, 4 * hidden]: r, z, n and from_state_n, for grad. grad: to from_state (written to grad_from_state), to products
// (unless null; added where `add`, else written, as above) and, unless null, through z to row r's h.
#define CS_GRU_STEP(T)                                                                                                                          \
  int64_t rows, int64_t hidden, const T *products, const int32_t *read, const T *from_state, int64_t stride, const T *h, const int32_t *parent, \
      T *saved, T *new_h
#define CS_GRU_STEP_GRAD(T)                                                                                                         \
  int64_t rows, int64_t hidden, const T *saved, const T *h, const int32_t *parent, const T *grad_out, const int32_t *read, int add, \
      T *grad_products, T *grad_from_state, T *grad_h
CS_API int cs_gru_step_f32(CS_GRU_STEP(float));
CS_API int cs_gru_step_f64(CS_GRU_STEP(double));
CS_API int cs_gru_step_grad_f32(CS_GRU_STEP_GRAD(float));
CS_API int cs_gru_step_grad_f64(CS_GRU_STEP_GRAD(double));

// Computes cos and, unless null, sin of frequency * elapsed + phase, [rows, clock]; the angle is computed in double.
CS_API int cs_encode_f32(int64_t rows, int64_t clock, const float* elapsed, const float* frequency, const float* phase, float* cosine,
                         float* sine);
CS_API int cs_encode_f64(int64_t rows, int64_t clock, const double* elapsed, const double* frequency, const double* phase, double* cosine,
                         double* sine);

// Sums over edges as COO: out[v, :] = sum over the edges e of target[e] == v, in their order, of x[source[e], :], or x[e, :] where source
// is null. Ids are int64 where `wide`, else int32. An id outside [0, rows) or [0, sources), and 2^31 edges or more, is CS_ERROR_ARGUMENT.
#define CS_EDGES(T) \
  int64_t rows, int64_t edges, const void *target, const void *source, int wide, int64_t sources, const T *x, int64_t width, T *out
CS_API int cs_edges_f32(CS_EDGES(float));
CS_API int cs_edges_f64(CS_EDGES(double));

// Computes the softmax over each row's entries, for each head: numbers [entries, heads]; indptr [rows + 1], checked: CS_ERROR_ARGUMENT
// unless it ascends from 0 to entries. A row with a NaN, an infinity or nothing but -infinity is NaN (of that head). grad: into_scores =
// shares * (into - sum of the row's shares * into).
#define CS_SHARES int64_t rows, int64_t entries, int64_t heads, const int64_t *indptr
CS_API int cs_edge_softmax_f32(CS_SHARES, const float* scores, float* shares);
CS_API int cs_edge_softmax_f64(CS_SHARES, const double* scores, double* shares);
CS_API int cs_edge_softmax_grad_f32(CS_SHARES, const float* shares, const float* into, float* into_scores);
CS_API int cs_edge_softmax_grad_f64(CS_SHARES, const double* shares, const double* into, double* into_scores);

// out[i, :] = row index[i] of two tables as if they were one, `cached` before `sent`. Ids as in cs_edges.
#define CS_TABLES(T) \
  int64_t count, const void *index, int wide, int64_t cached_rows, const T *cached, int64_t sent_rows, const T *sent, int64_t width, T *out
CS_API int cs_gather_f32(CS_TABLES(float));
CS_API int cs_gather_f64(CS_TABLES(double));

// ---- libchronoscale_cuda ---- the same, enqueued on a stream of a device: no allocation, no synchronisation.
//
// entries: indptr[rows], which the host must know. counters: one for each started piece of cs_cuda_piece() entries; all zero, and zero
// again when the kernel has ended, so one array serves all calls of a stream (of a CUDA graph, which runs on any, its own). partial:
// scratch memory for partial results of blocks, two numbers of the result's type (increment, aggregate: two rows of them; softmax: four)
// for each piece. Without counters no row may have that many entries. cuts [cut_count, 2]: each row of that many with each piece that it
// has entries in; null where unknown: then the kernels search for them.
#define CS_CUDA_LAUNCH \
  int64_t entries, int32_t *counters, void *partial, const int32_t *cuts, int64_t cut_count, int device, void *stream

CS_API int cs_cuda_version(void);
CS_API int cs_cuda_available(void);           // CS_OK when a driver and a device are there
CS_API const char* cs_cuda_last_error(void);  // of the calling thread
CS_API int cs_cuda_piece(void);

// Targets of the build, and properties of this machine; devices.py compares the two.
CS_API const char* cs_cuda_architectures(void);  // "80,90-real": as CMake's CUDA_ARCHITECTURES, or "" where unknown
CS_API int cs_cuda_toolkit(void);                // 1000 * major + 10 * minor
CS_API int cs_cuda_driver(void);                 // the newest CUDA that the driver supports, likewise; 0 without a driver
// capability: 10 * major + minor; name: `size` bytes, terminated. CS_ERROR_ARGUMENT for a device that is not there.
CS_API int cs_cuda_device(int device, int* capability, char* name, int64_t size);

// only [rows] (or null: all): rows with 0 are neither computed nor written. x of bf16: bfloat16 bits, summed as floats.
#define CS_CUDA_AGGREGATE(kind, T, S)                                                                                    \
  CS_API int cs_cuda_aggregate_##kind(int64_t rows, const int64_t* indptr, const int32_t* indices, const float* values,  \
                                      const S* x, int64_t width, T* out, const uint8_t* only, CS_CUDA_LAUNCH);           \
  CS_API int cs_cuda_increment_##kind(int64_t rows, const int32_t* targets, const uint8_t* fresh, const int64_t* indptr, \
                                      const int32_t* indices, const float* values, const S* x, int64_t width, T* sums,   \
                                      T* touched, CS_CUDA_LAUNCH);
CS_CUDA_AGGREGATE(f32, float, float)
CS_CUDA_AGGREGATE(f64, double, double)
CS_CUDA_AGGREGATE(bf16, float, uint16_t)
#undef CS_CUDA_AGGREGATE
CS_API int cs_cuda_weigh_f64(int64_t rows, const int64_t* indptr, const int32_t* indices, const double* weights, const double* x,
                             int64_t width, double* out, const uint8_t* only, CS_CUDA_LAUNCH);

// change has `changes` entries in rows targets [changed_rows]; the result has `made` entries. *unfit (never reset here) becomes 1 where
// the CPU returns CS_ERROR_ARGUMENT; nothing is written outside the result then either.
CS_API int cs_cuda_rebuild(int64_t rows, const int64_t* indptr, const int32_t* indices, const int32_t* slots,
                           const int64_t* change_ptr, const int32_t* change, const int64_t* steps, const double* column,
                           const double* row, const int64_t* out_ptr, int32_t* out_indices, float* out_values, int64_t changes,
                           int64_t changed_rows, const int32_t* targets, int64_t out_entries, int32_t* unfit, CS_CUDA_LAUNCH);

#define CS_CUDA_SOFTMAX(kind, T)                                                                                                            \
  CS_API int cs_cuda_softmax_##kind(int64_t rows, const int32_t* targets, const int64_t* indptr, const int32_t* indices,                    \
                                    const int8_t* sign, const T* base, int running, const T* left, const T* right, double slope,            \
                                    T* weights, T* maximum, T* denominator, uint8_t* removed_maximum, const uint8_t* only, CS_CUDA_LAUNCH); \
  CS_API int cs_cuda_softmax_grad_##kind(int64_t rows, const int32_t* targets, const int64_t* indptr, const int32_t* indices,               \
                                         const T* left, const T* right, double slope, const T* weights, const T* z,                         \
                                         int64_t width, const T* into_total, const T* into_denominator, T* edges, T* row,                   \
                                         const uint8_t* only, CS_CUDA_LAUNCH);
CS_CUDA_SOFTMAX(f32, float)
CS_CUDA_SOFTMAX(f64, double)
#undef CS_CUDA_SOFTMAX

// On a device no id is refused. cs_cuda_edges adds to `out`, by atomics in any order; cs_cuda_segments writes it in a fixed order, and
// takes targets for ascending: rows without edges stay as they are. An edge to a row that is not there is left out; a row of x or of the
// tables that is not there reads as NaN; pointers beyond the entries are taken for their end.
#define CS_CUDA_EDGES(kind, T)                                                                                                    \
  CS_API int cs_cuda_edges_##kind(CS_EDGES(T), CS_CUDA_LAUNCH);                                                                   \
  CS_API int cs_cuda_segments_##kind(CS_EDGES(T), CS_CUDA_LAUNCH);                                                                \
  CS_API int cs_cuda_edge_softmax_##kind(CS_SHARES_ON_CUDA, const T* scores, T* shares, CS_CUDA_LAUNCH);                          \
  CS_API int cs_cuda_edge_softmax_grad_##kind(CS_SHARES_ON_CUDA, const T* shares, const T* into, T* into_scores, CS_CUDA_LAUNCH); \
  CS_API int cs_cuda_gather_##kind(CS_TABLES(T), CS_CUDA_LAUNCH);
#define CS_SHARES_ON_CUDA int64_t rows, int64_t heads, const int64_t *indptr  // entries: the launch's
CS_CUDA_EDGES(f32, float)
CS_CUDA_EDGES(f64, double)
#undef CS_CUDA_EDGES

// Filled slots outside the source read as NaN. cs_cuda_slots_grad writes a gradient for each filled slot to `rows` [targets, fanout, width]
// (or null), for cs_cuda_segments to add up; scores [targets, heads, fanout] and turns [targets, 2, clock] (null without frequency and
// phase) are scratch memory. Its and cs_cuda_encode_grad's `partial`: clock numbers for each piece of targets, or of rows; they add up to
// frequency and phase from `into` [rows, clock] and the sines of cs_cuda_encode.
#define CS_CUDA_MODEL(kind, T)                                                                                                               \
  CS_API int cs_cuda_slots_##kind(CS_SLOTS(T), T* weights, T* out, CS_CUDA_LAUNCH);                                                          \
  CS_API int cs_cuda_slots_grad_##kind(CS_SLOTS(T), const T* weights, const T* into, T* scores, T* into_query, T* rows,                      \
                                       T* into_edge, T* turns, T* into_frequency, T* into_phase, CS_CUDA_LAUNCH);                            \
  CS_API int cs_cuda_gates_##kind(CS_GATES(T), T* out, CS_CUDA_LAUNCH);                                                                      \
  CS_API int cs_cuda_gates_grad_##kind(CS_GATES(T), const T* into, T* grad_from_input, T* grad_from_memory, T* grad_memory, CS_CUDA_LAUNCH); \
  CS_API int cs_cuda_lstm_step_##kind(CS_LSTM_STEP(T), CS_CUDA_LAUNCH);                                                                      \
  CS_API int cs_cuda_lstm_step_grad_##kind(CS_LSTM_STEP_GRAD(T), CS_CUDA_LAUNCH);                                                            \
  CS_API int cs_cuda_gru_step_##kind(CS_GRU_STEP(T), CS_CUDA_LAUNCH);                                                                        \
  CS_API int cs_cuda_gru_step_grad_##kind(CS_GRU_STEP_GRAD(T), CS_CUDA_LAUNCH);                                                              \
  CS_API int cs_cuda_encode_##kind(int64_t rows, int64_t clock, const T* elapsed, const T* frequency, const T* phase, T* cosine,             \
                                   T* sine, CS_CUDA_LAUNCH);                                                                                 \
  CS_API int cs_cuda_encode_grad_##kind(int64_t rows, int64_t clock, const T* elapsed, const T* sine, const T* into, T* frequency,           \
                                        T* phase, CS_CUDA_LAUNCH);
CS_CUDA_MODEL(f32, float)
CS_CUDA_MODEL(f64, double)
#undef CS_CUDA_MODEL

#ifdef __cplusplus
}
#endif
