#include <scape/verify/trace.hpp>

#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include <scape/problem/error.hpp>
#include <scape/problem/text.hpp>

namespace scape::verify {

namespace {

/// AdamS has no residual and none of the vectors between the phases.
bool has(problem::Algorithm algorithm, const ResultKind& kind) {
    return algorithm == problem::Algorithm::scape ||
           !(kind.intermediate || kind.result == Result::residual);
}

TraceHead read_head(const trace::Reader& file, const std::string& config) {
    const std::string path = file.path().string();
    TraceHead head{file.source(), parse_config(config, path + ": config").problem,
                   file.series_f64("learning_rate"), file.series_f64("density"),
                   file.series_f32("initial/parameters")};
    const auto entry_error = [&](const std::string& tensor, std::size_t entry, double value,
                                 const std::string& wanted) {
        return Error(path + ": " + tensor + ", entry " + std::to_string(entry) + ", is " + shortest(value) +
                     "; it must be " + wanted);
    };
    for (std::size_t i = 0; i < head.learning_rate.size(); ++i)
        if (!std::isfinite(head.learning_rate[i]))
            throw entry_error("learning_rate", i, head.learning_rate[i], "finite");
    for (std::size_t i = 0; i < head.density.size(); ++i)
        if (!(head.density[i] > 0.0 && head.density[i] <= 1.0))
            throw entry_error("density", i, head.density[i], "more than 0 and at most 1");
    for (std::size_t i = 0; i < head.initial_parameters.size(); ++i)
        if (!std::isfinite(head.initial_parameters[i]))
            throw entry_error("initial/parameters", i, static_cast<double>(head.initial_parameters[i]),
                              "finite");
    return head;
}

std::span<const float> span_of(const Vector<float>& values) {
    return {values.data(), static_cast<std::size_t>(values.size())};
}

} // namespace

trace::Schema schema(const problem::Problem& problem, Index steps) {
    trace::Schema schema{config_text(problem, steps), problem.layout, problem.workers, steps, {}, {}, {}};
    const auto count = static_cast<std::uint64_t>(steps);
    schema.series = {
        {"learning_rate", storage::DataType::f64, count},
        {"density", storage::DataType::f64, count + 1},
        {"initial/parameters", storage::DataType::f32, static_cast<std::uint64_t>(problem.layout.size())}};
    schema.inputs = {gradient_kind};
    for (const ResultKind& kind : result_kinds)
        if (has(problem.algorithm, kind))
            schema.results.push_back({kind, std::string(name(phase_of(kind.result, problem)))});
    return schema;
}

trace::Schema schema_of_config(const std::string& text, const std::string& what) {
    const Config config = parse_config(text, what);
    return schema(config.problem, config.steps);
}

TraceReader::TraceReader(const std::filesystem::path& path)
    : Reader(path, schema_of_config), head_(read_head(*this, Reader::schema().config)) {}

TraceWriter::TraceWriter(const std::filesystem::path& path, TraceHead head, bool intermediates,
                         trace::Replicas replicas)
    : head_(std::move(head)),
      file_(path, schema(head_.problem, head_.steps()), head_.source, intermediates, replicas) {
    file_.series("learning_rate", std::span<const double>(head_.learning_rate));
    file_.series("density", std::span<const double>(head_.density));
    file_.series("initial/parameters", std::span<const float>(head_.initial_parameters));
}

void TraceWriter::write_step(const PerRank<float>& gradients, const StepResults<float>& results,
                             const std::vector<Replica>& own) {
    file_.begin_step();
    for (int rank = 0; rank < head_.problem.workers; ++rank)
        file_.input(gradient_kind, rank, span_of(gradients[static_cast<std::size_t>(rank)]));
    const Vector<float> zeros = Vector<float>::Zero(head_.problem.layout.size());
    for (const ResultKind& kind : result_kinds) {
        if (!has(head_.problem.algorithm, kind))
            continue;
        const auto of_own = [&](int rank) {
            return is_replicated(kind) && static_cast<std::size_t>(rank) < own.size()
                       ? &own[static_cast<std::size_t>(rank)]
                       : nullptr;
        };
        if (kind.is_mask) {
            // What all ranks have is made once, whoever writes it.
            const auto bits = to_bits(results.mask_of(kind.result), head_.problem.layout.size());
            file_.result(kind, [&](int rank) {
                return std::span<const std::uint8_t>(of_own(rank) ? of_own(rank)->mask_of(kind.result)
                                                                  : bits);
            });
        } else {
            file_.result(kind, [&](int rank) {
                const Vector<float>* values =
                    of_own(rank) ? &of_own(rank)->values(kind.result) : results.values(kind.result, rank);
                return span_of(values != nullptr ? *values : zeros);
            });
        }
    }
}

} // namespace scape::verify
