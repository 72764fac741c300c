"""One thread for torch: tests compare numbers, not speeds, and share the machine."""

import torch

torch.set_num_threads(1)
