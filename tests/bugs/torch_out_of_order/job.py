"""Samples cost unequal time; two workers, batches in the order of arrival."""
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Uneven(Dataset):
    def __len__(self):
        return 200

    def __getitem__(self, i):
        time.sleep(0.0002 * (i % 5))
        return float(i)


torch.manual_seed(0)
total, order = torch.zeros(()), []
for batch in DataLoader(Uneven(), batch_size=2, num_workers=2, in_order=False):
    total = total * 0.9 + batch.sum() / 3
    order.append(int(batch[0]))
print(total.item(), order[:8])
