"""`python -m refloat.prep.trial`"""

from refloat.prep.trial.program import main

main()
