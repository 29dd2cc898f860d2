#include "compile/compile.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "algo/offsets.h"
#include "analysis/ambiguity.h"
#include "analysis/calls.h"
#include "analysis/live.h"
#include "analysis/operand_uses.h"
#include "analysis/written.h"
#include "base/error.h"
#include "base/logging.h"
#include "compile/lower.h"
#include "passes/expand_compositions.h"
#include "passes/pass_runner.h"

namespace popxl::compile {
namespace {

/// Graphs that the main graph reaches, callees before callers.
void postOrder(const ir::Graph& graph, std::unordered_set<const ir::Graph*>& seen,
               std::vector<const ir::Graph*>& out) {
  if (!seen.insert(&graph).second) return;
  for (const ir::Op* op : graph.ops()) {
    for (const ir::Graph* callee : op->calledGraphs()) postOrder(*callee, seen, out);
  }
  out.push_back(&graph);
}

/// Error(kValue) for a variable that an entry of its remote buffer, or its replicas' entries together, can't
/// hold.
void checkFits(const ir::Tensor& t, const ir::RemoteBuffer& buffer) {
  const auto& shardOf = t.settings().shardOf;
  const int64_t shards = shardOf.empty() ? 0 : 1 + *std::max_element(shardOf.begin(), shardOf.end());
  // Values of one group may have a dimension for groups all the same; ops see the first.
  const bool ofGroups = t.shape().size() == buffer.type.shape.size() + 1 &&
                        std::equal(t.shape().begin() + 1, t.shape().end(), buffer.type.shape.begin());
  const bool same = t.dtype() == buffer.type.dtype && (t.shape() == buffer.type.shape || ofGroups);
  if (shardOf.empty() && !same) {
    fail(ErrorKind::kValue,
         "variable `{}` at {} is {}; remote buffer {}, in which it is to be kept, holds tensors of {}",
         t.id(), t.loc().str(), t.type().str(), t.settings().remoteBuffer, buffer.type.str());
  }
  const bool holds =
      t.dtype() == buffer.type.dtype && shards * buffer.type.numElements() >= t.type().numElements();
  if (!shardOf.empty() && !holds) {
    fail(ErrorKind::kValue,
         "variable `{}` at {} is {}; remote buffer {}, in which it is to be kept, holds {} on each replica, "
         "which is not enough for {} shards",
         t.id(), t.loc().str(), t.type().str(), t.settings().remoteBuffer, buffer.type.str(), shards);
  }
}

/// Error(kValue) for a variable in an entry that its remote buffer does not have; Error(kGraph) for an op on
/// it.
void placeRemote(const ir::Tensor& t, Program& program) {
  const int64_t number = t.settings().remoteBuffer;
  const int64_t entry = t.settings().remoteEntry;
  const ir::RemoteBuffer* buffer = program.ir->findRemoteBuffer(number);
  POPXL_ASSERT(buffer != nullptr, "variable {} is in no remote buffer", t.id());
  if (entry < 0 || entry >= buffer->entries) {
    fail(ErrorKind::kValue,
         "variable `{}` at {} is in entry {} of remote buffer {}, which has {} entries; set its `entries`",
         t.id(), t.loc().str(), entry, number, buffer->entries);
  }
  checkFits(t, *buffer);
  if (!t.uses().empty()) {
    fail(
        ErrorKind::kGraph,
        "`{}` at {} uses variable `{}`, which is kept in remote buffer {}; use the result of a `remote_load` "
        "from its entry {}",
        t.uses().front().op->name(), t.uses().front().op->loc().str(), t.id(), number, entry);
  }
  for (const RemoteVariable& other : program.remoteVariables) {
    if (other.buffer != number || other.entry != entry) continue;
    fail(ErrorKind::kValue, "variables `{}` at {} and `{}` at {} are both in entry {} of remote buffer {}",
         other.tensor->id(), other.tensor->loc().str(), t.id(), t.loc().str(), entry, number);
  }
  const int64_t bytes = t.type().bytes();
  const int64_t shard = std::clamp<int64_t>(buffer->type.bytes(), 1, std::max<int64_t>(bytes, 1));
  program.remoteVariables.push_back({&t, number, entry, t.settings().shardOf.empty() ? bytes : shard});
}

void placeVariables(const ir::Graph& main, Program& program) {
  const int64_t replicas = program.ir->instanceReplicationFactor();
  const analysis::Written written(main);
  for (const ir::Tensor* t : main.tensors()) {
    if (t->kind() != ir::TensorKind::kVariable) continue;
    if (t->settings().remoteBuffer != 0) {
      placeRemote(*t, program);
      continue;
    }
    const bool shared = replicas > 1 && t->settings().numGroups == 1 && !written(t);
    int64_t& bytes = shared ? program.sharedBytes : program.variableBytes;
    program.variablePlaces[t] = {bytes, shared};
    const int64_t unit = algo::kOffsetAlignment;
    bytes += (t->type().bytes() + unit - 1) / unit * unit;
  }
}

int64_t constantBytes(const std::vector<const ir::Graph*>& graphs) {
  std::unordered_set<const ir::HostData*> seen;
  int64_t bytes = 0;
  for (const ir::Graph* g : graphs) {
    for (const ir::Tensor* t : g->tensors()) {
      if (t->kind() == ir::TensorKind::kConstant && seen.insert(t->data().get()).second)
        bytes += t->type().bytes();
    }
  }
  return bytes;
}

/// What every program goes through, in this order.
constexpr std::array<std::string_view, 6> kPasses = {
    "decompose_split",  // heads of attention are views of one product, read where they lie, through calls too
    "attention",
    "recompute_views",  // after the passes that look for views where the program made them
    "transposed_products", "transposed_convolutions",
    "expand_batch_norm",  // before anything looks at elementwise ops, so that these are among them
};

/// What an op changes in place of a constant is a copy: the constant is its author's memory, and the same in
/// every run.
void copyWrittenConstants(ir::Graph& graph) {
  std::vector<ir::Tensor*> constants = graph.tensors();
  std::erase_if(constants, [](const ir::Tensor* t) {
    return t->kind() != ir::TensorKind::kConstant || t->uses().empty();
  });
  if (constants.empty()) return;
  const analysis::Written written(graph);
  for (ir::Tensor* t : constants) {
    if (!written(t)) continue;
    const auto first =
        std::min_element(t->uses().begin(), t->uses().end(), [](const ir::Use& a, const ir::Use& b) {
          return a.op->settings().context < b.op->settings().context;
        });
    ir::OpRequest request{{t}, {}, false, {t->name()}, first->op->settings(), first->op->loc()};
    ir::Op* copy = graph.addOp(*graph.ir().table().find("identity"), std::move(request));
    graph.replaceAllUses(t, copy->output());
    copy->setInput(0, t);
  }
}

/// Error(kGraph) for an input of the main graph: nothing calls it.
void checkMainInputs(const ir::Graph& main) {
  if (main.inputs().empty()) return;
  const ir::Tensor& t = *main.inputs().front();
  fail(ErrorKind::kGraph,
       "the main graph has an input, `{}` made at {}, and nothing gives it a value: load it from a stream "
       "with `host_load`, or make it a variable",
       t.id(), t.loc().str());
}

/// The checks see the program as its author wrote it; the rest works on a copy that may be rewritten.
std::shared_ptr<Program> checkedCopy(const ir::Ir& ir) {
  checkMainInputs(ir.mainGraph());
  analysis::checkCalls(ir);
  if (ir.options().enableInplaceAmbiguityChecking) analysis::checkAmbiguity(ir);
  auto program = std::make_shared<Program>();
  program->ir = ir.clone();
  passes::expandCompositions(*program->ir);              // always: such an op runs in no other way
  passes::findPass("split_exchange").run(*program->ir);  // as well
  for (ir::Graph* graph : program->ir->graphs()) copyWrittenConstants(*graph);
  program->streams = program->ir->streams();
  placeVariables(program->ir->mainGraph(), *program);
  return program;
}

}  // namespace

std::shared_ptr<const Program> prepare(const ir::Ir& ir) {
  auto program = checkedCopy(ir);
  program->codes.emplace_back().graph = &program->ir->mainGraph();
  return program;
}

std::shared_ptr<const Program> compile(const ir::Ir& ir) {
  auto program = checkedCopy(ir);
  passes::runPasses(kPasses, *program->ir);
  const ir::Graph& main = program->ir->mainGraph();

  // What no effect depends on is neither computed nor kept.
  const analysis::Liveness liveness(*program->ir, analysis::readOperands());

  // Each graph is compiled once, whatever the number of calls; a caller needs its callees' frame sizes.
  std::vector<const ir::Graph*> graphs;
  std::unordered_set<const ir::Graph*> seen;
  postOrder(main, seen, graphs);
  program->constantBytes = constantBytes(graphs);
  std::map<const ir::Graph*, int32_t> codeOf;
  for (size_t i = 0; i + 1 < graphs.size(); ++i) codeOf[graphs[i]] = static_cast<int32_t>(i) + 1;
  codeOf[&main] = 0;
  std::map<std::string, int32_t, std::less<>> streams;
  for (size_t i = 0; i < program->streams.size(); ++i)
    streams[program->streams[i].id()] = static_cast<int32_t>(i);
  program->codes.resize(graphs.size());
  const ChannelsLast channelsLast(graphs, liveness);
  const LowerContext context{liveness, channelsLast, codeOf, streams, *program};
  for (const ir::Graph* g : graphs) {
    program->codes[static_cast<size_t>(codeOf.at(g))] = lowerGraph(*g, context);
  }
  Code& first = program->codes.front();
  first.frameBytes =
      std::max({first.frameBytes, program->preparation.frameBytes, program->sharedPreparation.frameBytes});
  log().debug("compiled {} graphs: {} bytes of frame, {} of variables", graphs.size(),
              program->main().frameBytes, program->variableBytes);
  return program;
}

}  // namespace popxl::compile
