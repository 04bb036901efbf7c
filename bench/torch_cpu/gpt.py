"""gpt.py - examples/gpt_char/train.py with the clock of baton.py; takes its arguments"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/gpt_char"))

import train
from baton import Clock

if __name__ == "__main__":
    train.time = Clock()
    train.main()
    train.time.over()
