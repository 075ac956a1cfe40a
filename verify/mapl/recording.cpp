// Writes a trace that was gathered in memory, and reads one into memory.
#include <truestep/verify/mapl/traces.hpp>

#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/mapl/quantization.hpp>
#include <truestep/trace/writer.hpp>

#include "head.hpp"

namespace truestep::verify::mapl {

std::optional<Recording> steps_of(const std::filesystem::path& path, Index first, Index last) {
    const trace::Reader file(path, schema_of_config);
    const Head head = read_head(file);
    Recording made{head.config, {}, {}};
    made.config.steps = last - first + 1;
    made.config.before += (first - 1) * head.config.micro;

    std::map<std::string, std::vector<float>>& all = made.vectors;
    all["initial/A"] = head.a;
    all["initial/m"] = head.m;
    if (head.config.settings.anchors != Anchors::none) {
        all["P_sender"] = head.rows[0];
        all["P_receiver"] = head.rows[1];
    }
    if (quantizes(head.config.settings)) {
        all["initial/C"] = head.codebooks;
        all["initial/L"] = head.learned;
    }
    if (first > 1) {
        for (const auto& [name, initial] : {std::pair("A", "initial/A"), std::pair("m", "initial/m")}) {
            const auto values = file.values({name}, first - 1, 0);
            if (!values)
                return std::nullopt;
            all[initial] = *values;
        }
        for (const auto& [name, initial] : {std::pair("C", "initial/C"), std::pair("L", "initial/L")})
            if (quantizes(head.config.settings)) {
                if (!file.holds(of_step(first - 1, name)))
                    return std::nullopt;
                all[initial] = file.series_f32(of_step(first - 1, name));
            }
    }

    const auto ids_of_a_step = static_cast<std::ptrdiff_t>(head.config.micro * head.config.tokens);
    for (Index step = first; step <= last; ++step) {
        made.numbers["rate"].push_back(head.rates[static_cast<std::size_t>(step - 1)]);
        const auto ids = head.ids.begin() + (step - 1) * ids_of_a_step;
        made.numbers["ids"].insert(made.numbers["ids"].end(), ids, ids + ids_of_a_step);
        const std::string then = of_step(step, "");
        const std::string now = of_step(step - first + 1, "");
        for (const trace::Series& one : file.schema().series)
            if (one.name.starts_with(then))
                all[now + one.name.substr(then.size())] = file.series_f32(one.name);
        for (const trace::Result& result : file.schema().results)
            if (const auto values = file.values(result.kind, step, 0))
                all[now + std::string(result.kind.name)] = *values;
    }
    return made;
}

void write(const std::filesystem::path& path, const Recording& recording, const std::string& source) {
    trace::Schema schema = mapl::schema(recording.config);
    const auto held = [&](const std::string& name) { return recording.vectors.contains(name); };
    const auto vector = [&](const std::string& name) -> const std::vector<float>& {
        const auto found = recording.vectors.find(name);
        if (found == recording.vectors.end())
            throw Error(path.string() + ": not written: " + name + " is missing; record it");
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

} // namespace truestep::verify::mapl
