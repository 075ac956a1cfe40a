// Reads and writes traces of SCAPE and AdamS: head, schema, initial state and steps.
#include <truestep/verify/scape/trace.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/reference/scape/payload.hpp>

namespace truestep::verify::scape {

namespace {

constexpr const char* parameters_at_first = "initial/parameters";
constexpr const char* moment_at_first = "initial/first_moment";
constexpr const char* mask_at_first = "initial/mask";
constexpr const char* exponents = "exponent";

bool is_finite(float value) {
    return std::isfinite(value);
}

std::string residual_at_first(int rank) {
    return "initial/residual/rank" + std::to_string(rank);
}

/// AdamS has no residual and no intermediate vectors.
bool has(problem::Algorithm algorithm, const ResultKind& kind) {
    return algorithm == problem::Algorithm::scape ||
           !(kind.intermediate || kind.result == Result::residual);
}

/// E of every step; empty if the trace does not hold it.
std::vector<int> read_exponents(const trace::Reader& file) {
    if (std::ranges::find(file.schema().series, exponents, &trace::Series::name) ==
        file.schema().series.end())
        return {};
    const std::vector<double> read = file.series_f64(exponents);
    trace::check_entries(
        file, exponents, read,
        [](double E) {
            return E >= reference::scape::lowest_exponent && E <= reference::scape::highest_exponent &&
                   E == std::floor(E);
        },
        "a whole number from -126 to 127");
    return {read.begin(), read.end()};
}

/// The schema, without the optional series if the trace does not record E.
trace::Schema schema_of(const TraceHead& head) {
    trace::Schema all = schema(head.whole(), head.steps(), head.extent);
    if (head.exponent.empty())
        std::erase_if(all.series, [](const trace::Series& series) { return series.optional; });
    return all;
}

TraceHead read_head(const trace::Reader& file, const std::string& config) {
    const std::string path = file.path().string();
    Config read = parse_config(config, path + ": config");
    const bool sampled = !read.extent.sample.empty();
    TraceHead head{file.source(),
                   sampled ? part(read.problem, ranges_of(read.extent.sample, read.problem)) : read.problem,
                   file.series_f64("learning_rate"),
                   file.series_f64("density"),
                   file.series_f32(parameters_at_first),
                   std::move(read.extent)};
    if (needs_norm(read.problem, head.extent))
        head.norm = file.series_f64("norm");
    head.exponent = read_exponents(file);
    if (sampled)
        head.sampled = std::move(read.problem);
    trace::check_entries(
        file, "learning_rate", head.learning_rate,
        [](double rate) { return rate >= 0.0 && std::isfinite(rate); }, "finite and 0 or more");
    trace::check_entries(
        file, "density", head.density, [](double rho) { return rho > 0.0 && rho <= 1.0; },
        "more than 0 and at most 1");
    trace::check_entries(
        file, "norm", head.norm, [](double norm) { return norm >= 0.0; },
        "the norm of a gradient, 0 or more");
    trace::check_entries(file, parameters_at_first, head.initial_parameters, is_finite, "finite");
    return head;
}

std::span<const float> span_of(const Vector<float>& values) {
    return {values.data(), static_cast<std::size_t>(values.size())};
}

} // namespace

std::string_view name(Phase phase) {
    constexpr std::array<std::string_view, 8> names{"check",       "local",    "mask", "exchange",
                                                    "reconstruct", "residual", "clip", "update"};
    return names.at(static_cast<std::size_t>(phase));
}

Phase phase_of(Result result, const problem::Problem& problem) {
    switch (result) {
    case Result::local:
        return Phase::local;
    case Result::mask:
    case Result::next_mask:
        return Phase::mask;
    case Result::exchanged:
        return Phase::exchange;
    case Result::reconstructed:
        return Phase::reconstruct;
    case Result::residual:
        return Phase::residual;
    case Result::first_moment:
        return problem.settings.clip_norm > 0.0 ? Phase::clip : Phase::exchange;
    case Result::parameters:
        break;
    }
    return Phase::update;
}

std::vector<std::uint8_t> to_bits(const Coordinates& mask, Index size) {
    std::vector<std::uint8_t> bits(static_cast<std::size_t>((size + 7) / 8), 0);
    for (const Index coordinate : mask) {
        std::uint8_t& byte = bits[static_cast<std::size_t>(coordinate / 8)];
        byte = static_cast<std::uint8_t>(byte | (1U << static_cast<unsigned>(coordinate % 8)));
    }
    return bits;
}

Coordinates to_coordinates(const std::vector<std::uint8_t>& bits, Index size) {
    Coordinates mask;
    for (Index i = 0; i < size; ++i)
        if (((bits[static_cast<std::size_t>(i / 8)] >> static_cast<unsigned>(i % 8)) & 1U) != 0)
            mask.push_back(i);
    return mask;
}

trace::Schema schema(const problem::Problem& problem, Index steps, const Extent& extent) {
    using storage::DataType;
    trace::Schema schema{config_text(problem, steps, extent),
                         extent.sample.empty() ? problem.layout
                                               : problem.layout.part(ranges_of(extent.sample, problem)),
                         problem.workers,
                         steps,
                         {},
                         {},
                         {}};
    const auto count = static_cast<std::uint64_t>(steps);
    const auto size = static_cast<std::uint64_t>(schema.layout.size());
    const auto groups = static_cast<std::uint64_t>(problem.layout.param_groups());
    schema.series = {{"learning_rate", DataType::f64, count * groups},
                     {"density", DataType::f64, count + 1}};
    if (needs_norm(problem, extent))
        schema.series.push_back({"norm", DataType::f64, count});
    if (problem::format_of(problem.settings.payload) == problem::Payload::e5m2)
        schema.series.push_back({exponents, DataType::f64, count, !needs_exponent(problem, extent)});
    schema.series.push_back({parameters_at_first, DataType::f32, size});
    if (extent.begin > 0) {
        schema.series.push_back({moment_at_first, DataType::f32, size});
        if (problem.algorithm == problem::Algorithm::scape) {
            for (int rank = 0; rank < problem.workers; ++rank)
                schema.series.push_back({residual_at_first(rank), DataType::f32, size});
            schema.series.push_back({mask_at_first, DataType::u8, trace::mask_bytes(schema.layout.size())});
        }
    }
    schema.inputs = {gradient_kind};
    for (const ResultKind& kind : result_kinds)
        if (has(problem.algorithm, kind))
            schema.results.push_back({kind, std::string(name(phase_of(kind.result, problem)))});
    return schema;
}

trace::Schema schema_of_config(const std::string& text, const std::string& what) {
    const Config config = parse_config(text, what);
    return schema(config.problem, config.steps, config.extent);
}

TraceReader::TraceReader(const std::filesystem::path& path)
    : Reader(path, schema_of_config), head_(read_head(*this, Reader::schema().config)) {
    check_initial_state();
}

void TraceReader::check_initial_state() const {
    if (head_.extent.begin == 0)
        return;
    constexpr Index at_a_time = Index{1} << 20;
    const Index size = head_.problem.layout.size();
    for (const trace::Series& series : Reader::schema().series)
        for (Index begin = 0; series.type == storage::DataType::f32 && begin < size; begin += at_a_time)
            trace::check_entries(
                *this, series.name,
                series_f32(series.name, trace::Window{begin, std::min(size, begin + at_a_time)}), is_finite,
                "finite", begin);
}

InitialState TraceReader::initial_state(Part part) const {
    InitialState state{series_f32(moment_at_first, part), {}, {}};
    if (head_.problem.algorithm == problem::Algorithm::scape) {
        for (int rank = 0; rank < head_.problem.workers; ++rank)
            state.residual.push_back(series_f32(residual_at_first(rank), part));
        state.mask = series_u8(mask_at_first, part);
    }
    return state;
}

TraceWriter::TraceWriter(const std::filesystem::path& path, TraceHead head, bool intermediates,
                         trace::Replicas replicas, const InitialState& initial)
    : head_(std::move(head)), file_(path, schema_of(head_), head_.source, intermediates, replicas) {
    file_.series("learning_rate", std::span<const double>(head_.learning_rate));
    file_.series("density", std::span<const double>(head_.density));
    if (needs_norm(head_.whole(), head_.extent))
        file_.series("norm", std::span<const double>(head_.norm));
    if (!head_.exponent.empty()) {
        const std::vector<double> all(head_.exponent.begin(), head_.exponent.end());
        file_.series(exponents, std::span<const double>(all));
    }
    file_.series(parameters_at_first, std::span<const float>(head_.initial_parameters));
    if (head_.extent.begin == 0)
        return;
    file_.series(moment_at_first, std::span<const float>(initial.first_moment));
    for (std::size_t rank = 0; rank < initial.residual.size(); ++rank)
        file_.series(residual_at_first(static_cast<int>(rank)),
                     std::span<const float>(initial.residual[rank]));
    if (head_.problem.algorithm == problem::Algorithm::scape)
        file_.series(mask_at_first, std::span<const std::uint8_t>(initial.mask));
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
            // Results that all ranks share are converted once.
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

} // namespace truestep::verify::scape
