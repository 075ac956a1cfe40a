// The schema of dense training's traces, and what precedes their first step.
#include <truestep/verify/dense/traces.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace truestep::verify::dense {

namespace {

using storage::DataType;

constexpr const char* first_moment_before = "initial/first_moment";
constexpr const char* second_moment_before = "initial/second_moment";

Head read_head(const trace::Reader& file, const std::string& config) {
    Head head{parse_config(config, file.path().string() + ": config"),
              file.series_f64("learning_rate"),
              file.series_f32("initial/parameters"),
              {},
              {}};
    const auto finite = [](auto value) { return std::isfinite(value); };
    trace::check_entries(
        file, "learning_rate", head.learning_rates,
        [](double value) { return value >= 0.0 && std::isfinite(value); }, "0 or more and finite");
    trace::check_entries(file, "initial/parameters", head.parameters, finite, "finite");
    for (const auto& [name, part] : {std::pair(first_moment_before, &head.first_moment),
                                     std::pair(second_moment_before, &head.second_moment)})
        if (std::ranges::find(file.schema().series, name, &trace::Series::name) !=
            file.schema().series.end()) {
            *part = file.series_f32(name);
            trace::check_entries(file, name, *part, finite, "finite");
        }
    return head;
}

} // namespace

const trace::Result& result(Result which) {
    static const std::array<trace::Result, result_count> all{{
        {{"mean", false, false, true}, "mean"},
        {{"clipped", false, false, true}, "clip"},
        {{"first_moment"}, "momentum"},
        {{"second_moment"}, "momentum"},
        {{"orthogonalized", false, false, true}, "orthogonalization"},
        {{"parameters"}, "update"},
        {{"copies"}, "update"},
    }};
    return all[static_cast<std::size_t>(which)];
}

std::vector<Result> results_of(const Problem& problem) {
    const auto any = [&](auto has) { return std::ranges::any_of(problem.groups, has); };
    std::vector<Result> all{Result::mean};
    if (problem.clip_norm > 0.0)
        all.push_back(Result::clipped);
    if (any(has_first_moment))
        all.push_back(Result::first_moment);
    if (any([](const Group& group) { return is_adam(group.rule); }))
        all.push_back(Result::second_moment);
    if (any([](const Group& group) { return group.rule == Rule::muon; }))
        all.push_back(Result::orthogonalized);
    all.push_back(Result::parameters);
    if (problem.copies == Copies::bf16)
        all.push_back(Result::copies);
    return all;
}

trace::Kind gradient_kind(Index micro) {
    return {"gradient", true, false, false, micro};
}

trace::Schema schema(const Config& config) {
    const Problem& problem = config.problem;
    trace::Schema schema{config_text(config), layout_of(problem), problem.ranks, config.steps, {}, {}, {}};
    const auto size = static_cast<std::uint64_t>(schema.layout.size());
    schema.series = {
        {"initial/parameters", DataType::f32, size},
        {"learning_rate", DataType::f64, static_cast<std::uint64_t>(config.steps) * problem.groups.size()}};
    for (const Result which : results_of(problem)) {
        schema.results.push_back(result(which));
        if (config.begin > 0 && (which == Result::first_moment || which == Result::second_moment))
            schema.series.push_back(
                {which == Result::first_moment ? first_moment_before : second_moment_before, DataType::f32,
                 size});
    }
    for (int micro = 1; micro <= *std::ranges::max_element(problem.micro_batches); ++micro)
        schema.inputs.push_back(gradient_kind(micro));
    schema.has_input = [counts = problem.micro_batches](const trace::Kind& kind, Index, int rank) {
        return kind.part <= counts[static_cast<std::size_t>(rank)];
    };
    return schema;
}

trace::Schema schema_of_config(const std::string& text, const std::string& what) {
    return schema(parse_config(text, what));
}

std::vector<double> Head::rates_of(Index step) const {
    const auto groups = static_cast<std::ptrdiff_t>(config.problem.groups.size());
    const auto first = learning_rates.begin() + (step - 1) * groups;
    return {first, first + groups};
}

TraceReader::TraceReader(const std::filesystem::path& path)
    : Reader(path, schema_of_config), head_(read_head(*this, Reader::schema().config)) {}

} // namespace truestep::verify::dense
