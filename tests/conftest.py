"""One thread a test process: small tensors gain nothing from more, and the runs share the cores."""

import torch

torch.set_num_threads(1)
