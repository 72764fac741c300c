"""A stand-in for Slurm on machines that are network namespaces: `python slurm_stub.py srun|scontrol …`.

Its `srun` takes the options that our script gives, starts the tasks, and sets the variables that Slurm's sets (src/common/env.c there);
what Slurm itself does, such as cgroups and binding, it does not.
"""

import argparse
import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

MACHINES = "STUB_MACHINES"  # JSON: for each its namespace, address and folder for temporary files


def install(folder: Path, machines: list[tuple[str, str, Path]]) -> dict[str, str]:
    """Put the commands into a folder; return the environment of a batch script of job 4711 on these machines."""
    folder.mkdir()
    for _, _, temporary in machines:
        temporary.mkdir()
    for name in ("srun", "scontrol"):
        (folder / name).write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} {name} "$@"\n')
        (folder / name).chmod(stat.S_IRWXU)
    batch = {"SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": "stub[1-2]", "SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
    listed = json.dumps([(name, address, str(temporary)) for name, address, temporary in machines])
    return {**os.environ, **batch, MACHINES: listed, "PATH": f"{folder}:{os.environ['PATH']}"}


def srun(words: list[str]) -> int:
    """Start the tasks, end all once one fails, and return the highest exit code."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("nodes", "ntasks-per-node", "cpus-per-task", "kill-on-bad-exit"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--distribution", choices=["block"], required=True)
    parser.add_argument("--cpu-bind", choices=["none"], required=True)
    parser.add_argument("--export", choices=["ALL"], required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args(words)
    machines = json.loads(os.environ[MACHINES])
    assert asked.nodes == len(machines)
    each, tasks = asked.ntasks_per_node, []
    for task in range(asked.nodes * each):
        node, local = divmod(task, each)
        name, _, temporary = machines[node]
        step = {"STEP_ID": 0, "STEP_NUM_TASKS": asked.nodes * each, "STEP_TASKS_PER_NODE": f"{each}(x{asked.nodes})"}
        own = {"PROCID": task, "LOCALID": local, "NODEID": node}
        variables = {f"SLURM_{key}": str(value) for key, value in {**step, **own}.items()}
        tasks.append(subprocess.Popen(["ip", "netns", "exec", name, *asked.command], env={**os.environ, **variables, "TMPDIR": temporary}))
    while any(task.poll() is None for task in tasks):
        if asked.kill_on_bad_exit and any(task.returncode for task in tasks):
            for task in tasks:
                task.kill()
        time.sleep(0.05)
    return max(abs(task.returncode) for task in tasks)


def scontrol(words: list[str]) -> int:
    """Print the machines' addresses for `show hostnames LIST`."""
    assert words[:2] == ["show", "hostnames"] and words[2:] == [os.environ["SLURM_JOB_NODELIST"]]
    print("\n".join(address for _, address, _ in json.loads(os.environ[MACHINES])))
    return 0


if __name__ == "__main__":
    sys.exit({"srun": srun, "scontrol": scontrol}[sys.argv[1]](sys.argv[2:]))
