"""The mathematics: plans, contractions, the layer and the network, for tensors of any order."""
