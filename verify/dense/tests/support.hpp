#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <truestep/problem/data.hpp>
#include <truestep/reference/dense/reference.hpp>
#include <truestep/verify/dense/traces.hpp>

namespace truestep::verify::dense::testing {

using Floats = reference::Vector<float>;

/// A run of three ranks with two groups: Muon for a wide and a tall matrix, AdamW for a vector.
inline Problem two_groups() {
    Problem made;
    made.ranks = 3;
    made.micro_batches = {2, 1, 1};
    made.tensors = {{"wq", {8, 5}, "matrix"}, {"norm", {5}, "vector"}, {"wo", {5, 12}, "matrix"}};
    made.groups = {group_of(Rule::muon, {"matrix"}), group_of(Rule::adamw, {"vector"})};
    return made;
}

inline Problem one_group(const Group& group) {
    Problem made = two_groups();
    made.groups = {group};
    made.groups.front().roles = {"matrix", "vector"};
    return made;
}

/// Writes a trace that claims one problem and follows another, with `spoil` on each step's results.
struct WrittenRun {
    Problem claimed = two_groups();
    Problem followed = claimed;
    Index steps = 3;
    bool intermediates = false;
    bool state = true;       ///< also the moments
    bool undeclared = false; ///< a moment before the first step, which the config does not declare
    double rate = 0.01;
    trace::Replicas replicas = trace::Replicas::none;
    problem::DataClass data = problem::DataClass::normal;
    std::function<void(Result which, Index step, int rank, Floats& values)> spoil = [](Result, Index, int,
                                                                                       Floats&) {};
    std::function<void(Index step, std::vector<std::vector<Floats>>& gradients)> gradients =
        [](Index, std::vector<std::vector<Floats>>&) {};

    [[nodiscard]] std::filesystem::path write(const std::string& name) const {
        const auto path = std::filesystem::temp_directory_path() / ("dense_" + name + ".safetensors");
        Config config{claimed, steps, 0};
        trace::Schema all = schema(config);
        const Index size = all.layout.size();
        if (!state)
            std::erase_if(all.results,
                          [](const trace::Result& of) { return of.kind.name.ends_with("_moment"); });
        Floats start(size);
        for (Index i = 0; i < size; ++i)
            start[i] = problem::initial_parameter(problem::DataClass::normal, 1, i);
        if (undeclared)
            all.series.push_back(
                {"initial/first_moment", storage::DataType::f32, static_cast<std::uint64_t>(size)});
        reference::dense::Reference<float> reference(followed, start);
        const auto span_of = [](const Floats& values) {
            return std::span<const float>(values.data(), static_cast<std::size_t>(values.size()));
        };
        trace::Writer writer(path, all, "a test", intermediates, replicas);
        writer.series("initial/parameters", span_of(start));
        const std::vector<double> rates(static_cast<std::size_t>(steps) * claimed.groups.size(), rate);
        writer.series("learning_rate", std::span<const double>(rates));
        if (undeclared)
            writer.series("initial/first_moment", span_of(start));
        for (Index step = 1; step <= steps; ++step) {
            writer.begin_step();
            std::vector<std::vector<Floats>> all_gradients;
            int global = 0;
            for (const int count : claimed.micro_batches) {
                all_gradients.emplace_back();
                for (int micro = 0; micro < count; ++micro) {
                    Floats& g = all_gradients.back().emplace_back(size);
                    problem::fill_gradient({g.data(), static_cast<std::size_t>(size)}, data, 1, global++,
                                           step);
                }
            }
            gradients(step, all_gradients);
            for (const trace::Kind& kind : all.inputs)
                for (int rank = 0; rank < claimed.ranks; ++rank)
                    if (all.has_input(kind, step, rank))
                        writer.input(kind, rank,
                                     span_of(all_gradients[static_cast<std::size_t>(rank)]
                                                          [static_cast<std::size_t>(kind.part - 1)]));
            reference::dense::Step<float> made{Floats::Zero(size), Floats::Zero(size), Floats::Zero(size)};
            try {
                made = reference.step(all_gradients, std::vector<double>(followed.groups.size(), rate));
            } catch (const reference::scape::RefusedStep&) {
            }
            for (const Result which : results_of(claimed)) {
                const auto& state_now = reference.state;
                const Floats values = which == Result::mean             ? made.M
                                      : which == Result::clipped        ? made.ghat
                                      : which == Result::orthogonalized ? made.O
                                      : which == Result::first_moment   ? state_now.m
                                      : which == Result::second_moment  ? state_now.v
                                      : which == Result::copies ? reference::dense::copies_of(state_now.w)
                                                                : state_now.w;
                if (!state && result(which).phase == "momentum")
                    continue;
                std::vector<Floats> held(static_cast<std::size_t>(claimed.ranks), values);
                for (int rank = 0; rank < claimed.ranks; ++rank)
                    spoil(which, step, rank, held[static_cast<std::size_t>(rank)]);
                writer.result(result(which).kind,
                              [&](int rank) { return span_of(held[static_cast<std::size_t>(rank)]); });
            }
        }
        writer.finish();
        return path;
    }
};

} // namespace truestep::verify::dense::testing
