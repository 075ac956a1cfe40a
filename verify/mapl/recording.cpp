// A trace that was gathered in memory.
#include <scape/mapl/traces.hpp>

#include <utility>

#include <scape/problem/error.hpp>
#include <scape/trace/writer.hpp>

namespace scape::mapl {

void write(const std::filesystem::path& path, const Recording& recording, const std::string& source) {
    trace::Schema schema = mapl::schema(recording.config);
    const auto held = [&](const std::string& name) { return recording.vectors.contains(name); };
    const auto vector = [&](const std::string& name) -> const std::vector<float>& {
        const auto found = recording.vectors.find(name);
        if (found == recording.vectors.end())
            throw Error(path.string() + ": not written: there is no " + name);
        return found->second;
    };
    std::erase_if(schema.series, [&](const trace::Series& one) { return one.optional && !held(one.name); });
    std::erase_if(schema.results,
                  [&](const trace::Result& one) { return !held(trace::tensor_name(one.kind, 1, 0)); });
    trace::Writer writer(path, schema, source, true, trace::Replicas::none);
    for (const trace::Series& one : schema.series)
        if (one.type == trace::DataType::f64)
            writer.series(one.name, std::span<const double>(recording.numbers.at(one.name)));
        else
            writer.series(one.name, std::span<const float>(vector(one.name)));
    for (Index step = 1; step <= schema.steps; ++step) {
        writer.begin_step();
        for (const trace::Result& result : schema.results)
            writer.result(result.kind, [&](int) {
                return std::span<const float>(vector(trace::tensor_name(result.kind, step, 0)));
            });
    }
    writer.finish();
}

} // namespace scape::mapl
