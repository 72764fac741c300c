"""Table of the commands. What a command imports is imported when it is called."""

from __future__ import annotations

from chronoscale.harness.cli.lazy import Entry, LazyGroup

_HERE = "chronoscale.harness.cli"


class DataCommands(LazyGroup):
    """Command group `chronoscale data …`: its commands by name, each with where it is defined."""

    entries = {  # noqa: RUF012 (read only)
        "list": Entry(f"{_HERE}.data_list:data_list", "List all datasets that the catalogue knows."),
        "info": Entry(f"{_HERE}.data_info:info", "Print how a dataset was understood, its contents, and what papers print of it."),
        "look": Entry(f"{_HERE}.data_look:look", "Say what files would be read as, and by which command; ask what is unclear."),
        "get": Entry(f"{_HERE}.data:get", "Write a catalogue dataset that is local or generated to a folder of memory-mappable columns."),
        "make": Entry(f"{_HERE}.data:make", "Generate a dataset of any size into a folder of memory-mappable columns."),
        "convert": Entry(f"{_HERE}.data:convert", "Read any known format and write it as a folder of memory-mappable columns."),
        "partition": Entry(f"{_HERE}.data_partition:partition", "Cut a stream of events into parts, and say how well."),
    }


class ClusterCommands(LazyGroup):
    """Command group `chronoscale cluster …`: its commands by name, each with where it is defined."""

    entries = {  # noqa: RUF012
        "list": Entry(
            "chronoscale.harness.clusters.commands:cluster_list",
            "List the clusters that can be simulated by name, with what their links reach.",
        ),
        "fit": Entry(
            "chronoscale.harness.clusters.commands:fit",
            "Fit a cluster's links to measurements, and say how far it is off on what was held out.",
        ),
    }


class LaunchCommands(LazyGroup):
    """Command group `chronoscale launch …`: schedulers by name, each with where its command is defined."""

    entries = {  # noqa: RUF012
        "slurm": Entry(
            "chronoscale.harness.launching.launch:slurm",
            "Write the sbatch script that runs a command on several machines under Slurm, a rank a task.",
        ),
    }


class JobCommands(LazyGroup):
    """Command group `chronoscale job …`: its commands by name, each with where it is defined."""

    entries = {  # noqa: RUF012
        "pack": Entry("chronoscale.harness.launching.job:pack", "Write what `bench` would send to other machines to a folder."),
        "unpack": Entry(
            "chronoscale.harness.launching.job:unpack", "Check what `job pack` wrote, and put it where ranks of this machine look first."
        ),
    }


class Commands(LazyGroup):
    """Command group `chronoscale …`: all commands by name, each with where it is defined."""

    entries = {  # noqa: RUF012
        "profile": Entry(f"{_HERE}.loop:profile", "Measure operations on this device, fit cost curves, report their held-out error."),
        "bench": Entry(f"{_HERE}.loop:bench", "Train with every strategy for real, on every rank count."),
        "validate": Entry(
            f"{_HERE}.loop:validate", "Execute and replay the same schedules; print the error per operation, iteration and in total."
        ),
        "simulate": Entry(f"{_HERE}.loop:simulate", "Replay every strategy on every number of GPUs of the cluster."),
        "advise": Entry(f"{_HERE}.advise:advise", "Rank strategies, numbers of GPUs, clusters and settings; say what each is bound by."),
        "compare": Entry(f"{_HERE}.compare:compare", "Train every strategy to one target from several seeds; who is first, and how sure."),
        "train": Entry(f"{_HERE}.train:train", "Train, resumable after any epoch."),
        "predict": Entry(f"{_HERE}.predict:predict", "Write what a trained model predicts, as Parquet or CSV."),
        "report": Entry(
            f"{_HERE}.report:report", "Write one HTML page over runs, with tables as CSV and Markdown and figures as SVG and PNG."
        ),
        "trace": Entry(f"{_HERE}.trace:trace", "Export the traces of a run for a timeline viewer or another simulator."),
        "replay": Entry(f"{_HERE}.replay:replay", "Replay a Chakra execution trace on a cluster."),
        "kineto": Entry(f"{_HERE}.kineto:kineto", "Read traces of torch.profiler: a table by name, a trace, samples, costs."),
        "demo": Entry(f"{_HERE}.demo:demo", "The whole loop on generated data. Two minutes on two cores."),
        "reproduce": Entry(
            f"{_HERE}.reproduce:reproduce", "A paper's figure or table, published beside ours; `all`: whatever is not up to date."
        ),
        "study": Entry(f"{_HERE}.study:study", "Run a study file: a grid of points, and rows, tables and drawings of them. Resumable."),
        "strategies": Entry(f"{_HERE}.strategies:strategies", "Strategies by name, with their source."),
        "keys": Entry(f"{_HERE}.keys:keys", "The keys of an experiment file: type, default, family, meaning."),
        "compile": Entry(f"{_HERE}.operators:compile_", "Compile the operators in C++ for the torch that is installed."),
        "cluster": Entry(f"{_HERE}.commands:ClusterCommands", "Clusters to simulate: list them, fit one to measurements."),
        "launch": Entry(f"{_HERE}.commands:LaunchCommands", "Hand a command to the scheduler of a cluster."),
        "job": Entry(f"{_HERE}.commands:JobCommands", "Carry what ranks on other machines read there beforehand."),
        "data": Entry(f"{_HERE}.commands:DataCommands", "List, look at, describe, fetch, make, convert and partition datasets."),
    }
