"""Attacks on polyad, kept: hostile files with the answer each must get, and a search for more.

python -m attacks                  # every case: exit code, sentence, memory, time
python -m attacks --trace          # the same under strace: no outside file, no socket
python -m attacks.search           # fuzzing, until stopped; see its --help
"""
