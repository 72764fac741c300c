"""`python -m chronoscale` is the command `chronoscale`; both begin here, so that Ctrl-C is heard before anything else is imported."""

from __future__ import annotations

import signal

from chronoscale.interruption import CODE, leave


def main() -> None:
    """Run the command line; a SIGINT ends the process at once until it has begun, and once it has ended."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)
    from chronoscale.harness import cli  # noqa: PLC0415 (an import that may be interrupted)

    try:
        cli.main()
    except SystemExit as end:
        if end.code == CODE:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # it has been heard
        raise


if __name__ == "__main__":
    main()
