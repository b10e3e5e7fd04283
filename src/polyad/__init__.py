"""polyad: Rank-R networks for tensors of any order."""
