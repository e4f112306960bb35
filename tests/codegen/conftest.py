"""What kernels are compiled for and run with."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for codegen_kernels
