"""What tests of the native CPU kernels share."""

import pytest

from chronoscale.cuda_ext.backend import backends

HAS_CPU = "cpu" in backends()
PLACES = ["reference", *["cpu"] * HAS_CPU]  # backends of operations without kernels for CUDA
needs_cpu = pytest.mark.skipif(not HAS_CPU, reason="backend 'cpu' is not available on this machine")
