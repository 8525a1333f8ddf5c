"""`python -m refloat.prep`."""

from refloat.prep.main import main

main()
