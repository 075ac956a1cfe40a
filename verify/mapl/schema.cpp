// The schema of MAPL's traces.
#include <truestep/verify/mapl/traces.hpp>

#include <tuple>
#include <utility>

#include <truestep/problem/mapl/quantization.hpp>

namespace truestep::verify::mapl {

namespace {

using problem::Layout;
using storage::DataType;

/// The layout of A and vectors of its size, by which a place reads "tensor feature 3, index 2".
Layout features(const Settings& settings) {
    std::vector<problem::Tensor> all;
    for (Index i = 0; i < settings.width; ++i)
        all.push_back({"feature " + std::to_string(i), settings.rank});
    return Layout(std::move(all));
}

} // namespace

std::string of_micro(const std::string& what, Index micro) {
    return micro == 0 ? what : what + "." + std::to_string(micro);
}

std::string of_step(Index step, const std::string& what) {
    return trace::tensor_name({what}, step, 0);
}

trace::Schema schema(const Config& config) {
    const Settings& of = config.settings;
    const auto count = [](auto... factors) {
        return static_cast<std::uint64_t>((Index{1} * ... * factors));
    };
    const bool two = of.anchors == Anchors::two;
    const bool anchored = of.anchors != Anchors::none;
    trace::Schema schema{config_text(config), features(of), 1, config.steps, {}, {}, {}};
    // Vectors of other sizes than A's are series, step after step, because series may have any
    // size.
    const auto add = [&](const std::string& name, std::uint64_t size, bool optional) {
        schema.series.push_back({name, DataType::f32, size, optional});
    };
    schema.series = {{"rate", DataType::f64, count(config.steps)},
                     {"ids", DataType::f64, count(config.steps, config.micro, config.tokens)}};
    add("initial/A", count(of.width, of.rank), false);
    add("initial/m", count(of.width, of.rank), true);
    if (anchored)
        add("P_sender", count(of.rank, of.width), false);
    if (two)
        add("P_receiver", count(of.rank, of.width), false);
    const auto books = static_cast<Index>(codebooks_of(of).size());
    if (quantizes(of)) {
        add("initial/C", count(books), false);
        add("initial/L", count(books), true);
    }
    for (Index step = 1; step <= config.steps; ++step) {
        const auto of_side = [&](const char* what, const char* side, bool optional) {
            add(of_step(step, std::string(what) + side), count(of.vocabulary, of.rank), optional);
        };
        if (anchored)
            of_side("E_", "sender", false);
        if (two)
            of_side("E_", "receiver", false);
        for (const auto& [name, columns, optional] :
             {std::tuple("X", of.width, false), std::tuple("G", of.width, false),
              std::tuple("Z", of.rank, true), std::tuple("Xhat", of.width, true),
              std::tuple("dZ", of.rank, true), std::tuple("dX", of.width, true)})
            for (Index micro = 1; micro <= config.micro; ++micro)
                add(of_step(step, of_micro(name, micro)), count(config.tokens, columns), optional);
        for (Index micro = 1; micro <= config.micro && quantizes(of); ++micro) {
            const auto each = static_cast<Index>(codebooks_of(of).books);
            add(of_step(step, of_micro("indices", micro)), count(config.tokens, each), false);
            add(of_step(step, of_micro("codewords", micro)), count(books / of.quantization.subsets), false);
        }
        if (quantizes(of))
            for (const char* name : {"L", "C", "C_receiver"})
                add(of_step(step, name), count(books), true);
        if (config.trains_anchors())
            for (const char* side : {"sender", "receiver"})
                of_side("dE_", side, true);
    }
    for (const char* name : {"gradient_sender", "gradient_receiver", "gradient"})
        schema.results.push_back({{name, false, false, true}, "gradient"});
    schema.results.push_back({{"m"}, "momentum"});
    schema.results.push_back({{"A"}, "subspace"});
    schema.results.push_back({{"A_receiver", false, false, true}, "subspace"});
    return schema;
}

trace::Schema schema_of_config(const std::string& text, const std::string& what) {
    return schema(parse_config(text, what));
}

} // namespace truestep::verify::mapl
