"""SamplingThreads: the threads that sample for one rank, each bound to a processor near those that sample similar nodes (FAST, section
4.4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.sampling.affinity import Roots, thread_affinity
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.batching.streams.sampling.thread_binding import bind_by_affinity, choose_processors
from chronoscale.cuda_ext.sampling import bound_threads
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.ranks.membership import Membership
from chronoscale.strategies.workload import Hyper


class SamplingThreads:
    """Binding of one rank's neighbour-sampling threads to processors (FAST), so that threads which read the same nodes share caches.

    cpus: the processor of each thread; empty where threads stay where the system puts them, and `note` says why. The thread that trains is
    never bound.
    """

    def __init__(self, data: PreparedStream, hyper: Hyper, sampling: Sampling, context: Context) -> None:
        """Choose processors by the roots of as many batches as are sampled beforehand (Algorithm 2).

        Raises UserError for a topology that does not parse.
        """
        self.cpus: tuple[int, ...] = ()
        settings, member = context.settings, Membership.here()
        local = (member.local_rank, member.local_ranks) if member.ranks > 1 else (context.rank, context.ranks)
        own, self.note = choose_processors(settings.topology, settings.threads, *local)
        if own is not None:
            tcsr, roots = data.source(False, sampling).tcsr, _roots(data, hyper, sampling, context)
            binding = bind_by_affinity(thread_affinity(tcsr, roots, settings.threads), own)
            self.cpus, self.note = binding.cpus, binding.note

    def begin(self) -> None:
        """Bind this rank's sampling threads to their processors, before an epoch."""
        if self.cpus:
            bound_threads.bind(self.cpus)

    def end(self) -> None:
        """Unbind this rank's sampling threads, after an epoch."""
        if self.cpus:
            bound_threads.unbind()


def _roots(data: PreparedStream, hyper: Hyper, sampling: Sampling, context: Context) -> Iterator[Roots]:
    """Yield the roots of a rank's batches, and the events that each may see."""
    deal = data.assignment(False, context.ranks, hyper.batch_size, hyper.batches, hyper.events.every)
    deal = replace(deal, every=deal.every * max(-(-deal.iterations // hyper.events.presample), 1))
    others = data.negatives_of(False, 0, context.settings.seed, sampling.all_nodes)
    for iteration in range(deal.iterations):
        if own := deal.rank_events(iteration, context.rank):
            node, before, _ = data.training.roots(own, others(own), deal.all_events(iteration).start, sampling.sources)
            yield node, before
