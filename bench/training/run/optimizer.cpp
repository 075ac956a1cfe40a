// Finds the peer that an optimizer's name asks for, and checks that a plan suits it.
#include "optimizer.hpp"

#include <algorithm>
#include <vector>

#include <truestep/gate/did_you_mean.hpp>
#include <truestep/problem/error.hpp>

#include "compression.hpp"
#include "pipeline.hpp"

namespace truestep::training {

namespace {

constexpr std::string_view alias = "adams"; // the specification's name; among peers it is "dense"

std::string peer_of(const std::string& text) {
    const std::size_t end = std::min(text.find(':'), text.size());
    const std::string name = text.substr(0, end);
    if (name == alias)
        return "dense" + text.substr(end);
    std::vector<std::string> known{std::string(alias)};
    std::string list(alias);
    for (const peers::Kind& kind : peers::kinds()) {
        if (kind.name == name)
            return text;
        known.emplace_back(kind.name);
        list += ", " + known.back();
    }
    throw Error("there is no optimizer '" + name + "'" + gate::did_you_mean(name, known) + " (there are " +
                list + ")");
}

std::optional<Compression> checked_compression(const std::string& text, const Plan& plan) {
    const std::optional<Compression> compression = compression_of(text);
    if (!compression)
        return compression;
    if (plan.stages < 2)
        throw Error("'" + text + "' compresses what travels between stages, and there is one; give " +
                    "--stages 2 or more");
    if (compression->times > plan.shape.width || plan.shape.width % compression->times != 0)
        throw Error("'" + text + "' is to make a width of " + std::to_string(plan.shape.width) + " " +
                    std::to_string(compression->times) + " times less; give a number that divides it");
    if (compression->subspace == Subspace::mapl)
        problem::mapl::check_rate(compression->rate * plan.learning_rate);
    return compression;
}

} // namespace

peers::Choice optimizer_of(const std::string& text, const Plan& plan) {
    std::vector<problem::Tensor> tensors = layout_of(plan.shape).tensors();
    const auto compression = checked_compression(text, plan);
    const std::vector<problem::Tensor> anchors = anchor_tensors(plan, compression);
    tensors.insert(tensors.end(), anchors.begin(), anchors.end());
    const problem::Layout layout(std::move(tensors));
    peers::Choice choice = peers::parse(peer_of(std::string(without_compression(text))), layout.size());
    if (compression && choice.kind->number == peers::Number::inner_steps)
        throw Error(text +
                    ": between its rounds each rank has a model of its own, and a boundary's A is one "
                    "for all; compress with another optimizer");
    choice.setting.hyper = plan.hyper;
    choice.setting.density_warm_up = static_cast<peers::Index>(plan.density_warm_up);
    choice.setting.tensors = layout.tensors();
    return choice;
}

void check(const Plan& plan, const Text& text, const std::vector<std::string>& optimizers) {
    check(plan, text);
    Plan asked = plan;
    asked.shape.symbols = text.symbols;
    for (const std::string& optimizer : optimizers)
        static_cast<void>(optimizer_of(optimizer, asked));
}

} // namespace truestep::training
