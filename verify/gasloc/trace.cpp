// Reads GASLoC's traces: head, graphs of each round, schema and results.
#include <truestep/verify/gasloc/traces.hpp>

#include <array>
#include <cmath>

#include <truestep/problem/error.hpp>
#include <truestep/problem/gasloc/stability.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::verify::gasloc {

namespace {

using storage::DataType;

constexpr std::size_t numbers_of_edge = 4; ///< round, a, b, lambda

/// The edges of each round, in order; `where` begins an error's line.
std::vector<Graph> graphs_of(const std::vector<double>& series, const Config& config,
                             const std::string& where) {
    std::vector<Graph> graphs(static_cast<std::size_t>(config.rounds()));
    Index last = 1;
    for (std::size_t at = 0; at + numbers_of_edge <= series.size(); at += numbers_of_edge) {
        const std::string entry = where + ": edges, entry " + std::to_string(at / numbers_of_edge);
        std::array<Index, 3> whole{};
        for (std::size_t i = 0; i < whole.size(); ++i) {
            const double value = series[at + i];
            if (!(value >= -1e9 && value <= 1e9) || value != std::floor(value))
                throw Error(entry + ": " + shortest(value) + " is not a whole number");
            whole[i] = static_cast<Index>(value);
        }
        const auto [round, a, b] = whole;
        if (round < last || round > config.rounds())
            throw Error(entry + " is of round " + std::to_string(round) +
                        "; rounds ascend, and there are " + std::to_string(config.rounds()));
        last = round;
        Graph& graph = graphs[static_cast<std::size_t>(round - 1)];
        graph.push_back({static_cast<int>(a), static_cast<int>(b), series[at + 3]});
        // Checked as each is read, so that the entry can be named.
        static_cast<void>(checked(graph, config.workers, entry));
    }
    for (Graph& graph : graphs)
        graph = checked(graph, config.workers, where);
    return graphs;
}

Head read_head(const trace::Reader& file, const std::string& config) {
    const std::string path = file.path().string();
    Head head{parse_config(config, path + ": config"),
              file.series_f64("learning_rate"),
              file.series_f32("initial/parameters"),
              {}};
    head.graphs = graphs_of(file.series_f64("edges"), head.config, path);
    if (head.config.settings.law == Law::given)
        head.config.settings.given = head.graphs;
    const auto finite = [](auto value) { return std::isfinite(value); };
    trace::check_entries(file, "learning_rate", head.learning_rates, finite, "finite");
    trace::check_entries(file, "initial/parameters", head.initial_parameters, finite, "finite");
    try {
        check_stable(head.config.settings, head.config.workers, head.config.settings.given);
    } catch (const Error& error) {
        throw Error(path + ": config: " + error.what());
    }
    return head;
}

} // namespace

const trace::Result& result(Result which) {
    static const std::array<trace::Result, result_count> all{{
        {{"inner", true, false, true}, "inner"},
        {{"first_moment", true}, "inner"},
        {{"second_moment", true}, "inner"},
        {{"drifted", true}, "drift"},
        {{"gossiped", true}, "gossip"},
        {{"parameters", true}, "momentum"},
    }};
    return all[static_cast<std::size_t>(which)];
}

bool has(Inner inner, Result which) {
    if (which == Result::first_moment)
        return inner != Inner::sgd;
    return which != Result::second_moment || inner == Inner::adamw;
}

std::vector<Result> results_of(Inner inner) {
    std::vector<Result> all;
    for (std::size_t i = 0; i < result_count; ++i)
        if (has(inner, static_cast<Result>(i)))
            all.push_back(static_cast<Result>(i));
    return all;
}

Result result_before(Momentum momentum) {
    return momentum == Momentum::local ? Result::drifted : Result::gossiped;
}

trace::Kind gradient_kind(Index h) {
    return {"gradient", true, false, false, h};
}

trace::Schema schema(const Config& config) {
    trace::Schema schema{config_text(config), config.layout, config.workers, config.rounds(), {}, {}, {}};
    std::uint64_t rates = 0;
    for (Index round = 1; round <= config.rounds(); ++round)
        rates += static_cast<std::uint64_t>(config.most_steps(round));
    schema.series = {
        {"initial/parameters", DataType::f32, static_cast<std::uint64_t>(config.layout.size())},
        {"learning_rate", DataType::f64, rates},
        {"edges", DataType::f64, numbers_of_edge * static_cast<std::uint64_t>(config.edges)}};
    for (Index h = 1; h <= config.most_steps(); ++h)
        schema.inputs.push_back(gradient_kind(h));
    for (const Result which : results_of(config.settings.inner))
        schema.results.push_back(result(which));
    schema.has_input = [steps = config.inner_steps](const trace::Kind& kind, Index round, int rank) {
        return kind.part <= steps[static_cast<std::size_t>(round - 1)][static_cast<std::size_t>(rank)];
    };
    return schema;
}

trace::Schema schema_of_config(const std::string& text, const std::string& what) {
    return schema(parse_config(text, what));
}

std::vector<double> Head::learning_rates_of(Index round) const {
    std::size_t begin = 0;
    for (Index before = 1; before < round; ++before)
        begin += static_cast<std::size_t>(config.most_steps(before));
    const auto count = static_cast<std::size_t>(config.most_steps(round));
    return {learning_rates.begin() + static_cast<std::ptrdiff_t>(begin),
            learning_rates.begin() + static_cast<std::ptrdiff_t>(begin + count)};
}

std::vector<double> edges_series(const Config& config) {
    std::vector<double> series;
    for (Index round = 1; round <= config.rounds(); ++round)
        for (const Edge& edge : graph_of(config.settings, round, config.workers))
            for (const double value : {static_cast<double>(round), static_cast<double>(edge.a),
                                       static_cast<double>(edge.b), edge.weight})
                series.push_back(value);
    return series;
}

TraceReader::TraceReader(const std::filesystem::path& path)
    : Reader(path, schema_of_config), head_(read_head(*this, Reader::schema().config)) {}

} // namespace truestep::verify::gasloc
