"""Programs traced from the layer run for any batch: compiled, exported, or as a graph of FX."""

import pytest
import torch
from torch import nn
from torch.export import Dim, export

from polyad.core import RankRLinear, RankRNet, rank_r_linear
from polyad.core.plan import TRACED_BATCH, plan_inner
from polyad.errors import InputError

BATCHES = (64, 3, 1000, 1)
LAYERS = [((7,), 2), ((5, 6), 3), ((5, 5, 40), 1), ((5, 5, 40), 2), ((2, 3, 4, 2), 3)]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def layer_of(shape, rank, out=6):
    return RankRLinear(shape, out, rank, dtype=torch.float64, generator=seeded())


def samples(n, shape):
    return torch.randn(n, *shape, dtype=torch.float64, generator=seeded(n))


def with_gradients(module, x, parameters):
    """Return the outputs, and the gradients of input and parameters."""
    x = x.clone().requires_grad_()
    y = module(x)
    return y.detach(), *torch.autograd.grad(y.square().sum(), [x, *parameters])


def same_for_all_batches(traced, layer, shape):
    for n in BATCHES:
        torch.testing.assert_close(traced(samples(n, shape)), layer(samples(n, shape)))


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch.compiler.reset()


# torch.compile; "aot_eager" traces forward and backward as the real compiler does, and runs no g++


@pytest.mark.parametrize(("shape", "rank"), LAYERS[::2])  # seconds each
def test_compiled_layer_equals_the_layer_for_batches_that_change(shape, rank):
    layer = layer_of(shape, rank)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    for n in BATCHES:
        pairs = zip(
            with_gradients(compiled, samples(n, shape), layer.parameters()),
            with_gradients(layer, samples(n, shape), layer.parameters()),
            strict=True,
        )
        for one, other in pairs:
            torch.testing.assert_close(one, other)


# The first size is a number, all others are a symbol
@pytest.mark.parametrize(("dynamic", "count"), [(None, 2), (True, 1)])
def test_a_second_batch_size_is_the_last_compilation(dynamic, count):
    layer, graphs = layer_of((5, 6), 2), []
    compiled = torch.compile(
        layer, backend=lambda g, _: graphs.append(g) or g, fullgraph=True, dynamic=dynamic
    )
    for n in (64, 3, 1000, 17, 5):
        compiled(samples(n, (5, 6)))
    assert len(graphs) == count


def test_a_compiled_network_trains_as_the_network_does():
    nets = [RankRNet((5, 5, 8), 10, 3, 2, generator=seeded()) for _ in range(2)]
    steps = [nets[0], torch.compile(nets[1], backend="aot_eager", fullgraph=True)]
    for net, step in zip(nets, steps, strict=True):
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        for n in (32, 32, 7):  # a short last batch
            x = torch.randn(n, 5, 5, 8, generator=seeded(n))
            loss = nn.functional.cross_entropy(step(x), torch.arange(n) % 3)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    for one, other in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # of torch itself
def test_code_of_the_real_compiler_gives_the_layers_numbers():
    layer = layer_of((5, 5, 8), 2).eval()
    compiled = torch.compile(layer, fullgraph=True, dynamic=True)
    with torch.no_grad():
        try:
            compiled(samples(2, (5, 5, 8)))
        except torch._inductor.exc.InductorError as error:  # pragma: no cover
            pytest.skip(f"no C++ compiler that torch can use: {error}")
        same_for_all_batches(compiled, layer, (5, 5, 8))


def test_a_traced_program_is_planned_for_a_stated_number_of_samples():
    layer = layer_of((5, 5, 40), 1, out=75)
    wanted = plan_inner((5, 5, 40), 75, 1, TRACED_BATCH)
    program = export(layer, (samples(3, (5, 5, 40)),), dynamic_shapes=({0: Dim.DYNAMIC},))
    products = [n for n in program.graph.nodes if "bmm" in str(n.target)]
    assert bool(products) == wanted.chosen.dense  # only the rebuilt weight takes one by unit


# torch.export


def test_a_wrong_shape_is_refused_while_tracing():
    with pytest.raises(InputError, match="layer wants input of shape"):
        export(layer_of((5, 6), 2), (samples(3, (6, 5)),), strict=False)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of torch
def test_onnx_by_torch_takes_any_batch():
    pytest.importorskip("onnxscript", reason="needs onnxscript")
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
    net = RankRNet((5, 5, 8), 10, 3, 2, generator=seeded()).eval()
    x = torch.randn(3, 5, 5, 8, generator=seeded())
    shapes = ({0: Dim.DYNAMIC},)
    made = torch.onnx.export(net, (x,), dynamo=True, dynamic_shapes=shapes, verbose=False)
    session = runtime.InferenceSession(made.model_proto.SerializeToString())
    name = session.get_inputs()[0].name
    for n in BATCHES:
        x = torch.randn(n, 5, 5, 8, generator=seeded(n))
        (found,) = session.run(None, {name: x.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), net(x).detach(), rtol=1e-4, atol=1e-5)


# FX


def test_layer_is_one_node_of_a_graph_of_fx():
    graph = torch.fx.symbolic_trace(nn.Sequential(layer_of((5, 6), 2), nn.Tanh())).graph
    called = [node.target for node in graph.nodes if node.op == "call_function"]
    assert called == [rank_r_linear]


# The function behind the layer
