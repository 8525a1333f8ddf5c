"""`python -m refloat.worker`."""

from refloat.worker.main import main

main()
