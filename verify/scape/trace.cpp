#include <scape/verify/trace.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include <scape/problem/error.hpp>
#include <scape/problem/text.hpp>

namespace scape::verify {

namespace {

constexpr std::string_view format_name = "scape-trace";
constexpr std::string_view format_version = "1";

std::uint64_t unsigned_size(Index size) {
    return static_cast<std::uint64_t>(size);
}

/// AdamS has no residual and none of the vectors between the phases.
bool has(problem::Algorithm algorithm, const ResultKind& kind) {
    return algorithm == problem::Algorithm::scape ||
           !(kind.intermediate || kind.result == Result::residual);
}

std::string metadata_entry(const SafetensorsFile& file, const std::string& key) {
    const auto found = file.metadata().find(key);
    if (found == file.metadata().end())
        throw Error(file.path().string() + ": its metadata has no '" + key +
                    "'; a scape-trace has format, version, source and config (section 9)");
    return found->second;
}

void expect(const SafetensorsFile& file, const std::string& tensor, DataType type, std::uint64_t count) {
    const TensorEntry* entry = file.find(tensor);
    if (entry == nullptr)
        throw Error(file.path().string() + ": tensor " + tensor + " is missing; section 9 asks for it");
    if (entry->type != type || entry->shape != std::vector<std::uint64_t>{count}) {
        std::string shape;
        for (const std::uint64_t extent : entry->shape)
            shape += (shape.empty() ? "" : ", ") + std::to_string(extent);
        throw Error(file.path().string() + ": byte " + std::to_string(entry->header_offset) + ": tensor " +
                    tensor + " is " + std::string(storage::name(entry->type)) + "[" + shape +
                    "]; the config asks for " + std::string(storage::name(type)) + "[" +
                    std::to_string(count) + "]");
    }
}

TraceHead read_head(const SafetensorsFile& file) {
    const std::string path = file.path().string();
    const auto expect_entry = [&](const std::string& key, std::string_view wanted) {
        if (const std::string found = metadata_entry(file, key); found != wanted)
            throw Error(path + ": its metadata has " + key + " '" + one_line(found) +
                        "'; this tool reads " + key + " '" + std::string(wanted) + "'");
    };
    expect_entry("format", format_name);
    expect_entry("version", format_version);
    Config config = parse_config(metadata_entry(file, "config"), path + ": config");
    const Index size = config.problem.layout.size();
    expect(file, "learning_rate", DataType::f64, unsigned_size(config.steps));
    expect(file, "density", DataType::f64, unsigned_size(config.steps + 1));
    expect(file, "initial/parameters", DataType::f32, unsigned_size(size));
    TraceHead head{metadata_entry(file, "source"), std::move(config.problem),
                   file.read_f64("learning_rate"), file.read_f64("density"),
                   file.read_f32("initial/parameters")};

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

} // namespace

TraceReader::TraceReader(const std::filesystem::path& path) : file_(path), head_(read_head(file_)) {
    examine_tensors();
}

void TraceReader::examine_tensors() {
    const Index size = head_.problem.layout.size();
    std::set<std::string> known{"learning_rate", "density", "initial/parameters"};
    std::map<Result, std::vector<std::string>> missing;
    std::set<Result> held;
    for (Index step = 1; step <= head_.steps(); ++step) {
        for (int rank = 0; rank < head_.problem.workers; ++rank) {
            const std::string name = gradient_name(step, rank);
            expect(file_, name, DataType::f32, unsigned_size(size));
            known.insert(name);
        }
        for (const ResultKind& kind : result_kinds) {
            if (!has(head_.problem.algorithm, kind))
                continue;
            for (int rank = 0; rank < (kind.per_rank ? head_.problem.workers : 1); ++rank) {
                const std::string name = tensor_name(kind, step, rank);
                if (file_.find(name) == nullptr) {
                    missing[kind.result].push_back(name);
                    continue;
                }
                held.insert(kind.result);
                if (kind.is_mask)
                    expect(file_, name, DataType::u8, unsigned_size((size + 7) / 8));
                else
                    expect(file_, name, DataType::f32, unsigned_size(size));
                known.insert(name);
            }
        }
    }
    for (const Result result : held)
        missing_.insert(missing_.end(), missing[result].begin(), missing[result].end());
    for (const TensorEntry& entry : file_.tensors())
        if (!known.contains(entry.name))
            unknown_.push_back(entry.name);
    if (held.empty())
        throw Error(path().string() +
                    ": the trace holds no result of any step, so there is nothing to compare; "
                    "record parameters, first_moment, residual or masks");
}

std::vector<float> TraceReader::gradient(Index step, int rank) const {
    return file_.read_f32(gradient_name(step, rank));
}

std::optional<std::vector<float>> TraceReader::values(const ResultKind& kind, Index step, int rank) const {
    const std::string name = tensor_name(kind, step, rank);
    if (file_.find(name) == nullptr)
        return std::nullopt;
    return file_.read_f32(name);
}

std::optional<std::vector<std::uint8_t>> TraceReader::mask(const ResultKind& kind, Index step) const {
    const std::string name = tensor_name(kind, step, 0);
    if (file_.find(name) == nullptr)
        return std::nullopt;
    return file_.read_u8(name);
}

bool TraceReader::states_recorded() const {
    for (Index step = 1; step <= head_.steps(); ++step)
        for (const ResultKind& kind : result_kinds) {
            const bool state = has(head_.problem.algorithm, kind) && !kind.intermediate && !kind.is_mask;
            for (int rank = 0; state && rank < (kind.per_rank ? head_.problem.workers : 1); ++rank)
                if (file_.find(tensor_name(kind, step, rank)) == nullptr)
                    return false;
        }
    return true;
}

TraceWriter::TraceWriter(const std::filesystem::path& path, TraceHead head, bool intermediates)
    : head_(std::move(head)), intermediates_(intermediates),
      file_(path, {{"format", std::string(format_name)},
                   {"version", std::string(format_version)},
                   {"source", head_.source},
                   {"config", config_text(head_.problem, head_.steps())}}) {
    const std::uint64_t size = unsigned_size(head_.problem.layout.size());
    file_.declare("learning_rate", DataType::f64, {head_.learning_rate.size()});
    file_.declare("density", DataType::f64, {head_.density.size()});
    file_.declare("initial/parameters", DataType::f32, {size});
    const auto declare_results = [&](Index step, bool masks) {
        for (const ResultKind& kind : result_kinds)
            if (writes(kind) && kind.is_mask == masks)
                for (int rank = 0; rank < (kind.per_rank ? head_.problem.workers : 1); ++rank)
                    file_.declare(tensor_name(kind, step, rank), masks ? DataType::u8 : DataType::f32,
                                  {masks ? (size + 7) / 8 : size});
    };
    for (Index step = 1; step <= head_.steps(); ++step) {
        for (int rank = 0; rank < head_.problem.workers; ++rank)
            file_.declare(gradient_name(step, rank), DataType::f32, {size});
        declare_results(step, false);
    }
    for (Index step = 1; step <= head_.steps(); ++step)
        declare_results(step, true);
    file_.write_f64("learning_rate", head_.learning_rate);
    file_.write_f64("density", head_.density);
    file_.write_f32("initial/parameters", head_.initial_parameters);
}

bool TraceWriter::writes(const ResultKind& kind) const {
    return (!kind.intermediate || intermediates_) && has(head_.problem.algorithm, kind);
}

void TraceWriter::write_step(const PerRank<float>& gradients, const StepResults<float>& results) {
    ++step_;
    const auto write = [&](const std::string& name, const Vector<float>& values) {
        file_.write_f32(name, {values.data(), static_cast<std::size_t>(values.size())});
    };
    for (int rank = 0; rank < head_.problem.workers; ++rank)
        write(gradient_name(step_, rank), gradients[static_cast<std::size_t>(rank)]);
    for (const ResultKind& kind : result_kinds) {
        if (!writes(kind))
            continue;
        if (kind.is_mask) {
            masks_.emplace_back(tensor_name(kind, step_, 0),
                                to_bits(results.mask_of(kind.result), head_.problem.layout.size()));
            continue;
        }
        for (int rank = 0; rank < (kind.per_rank ? head_.problem.workers : 1); ++rank) {
            const Vector<float>* values = results.values(kind.result, rank);
            write(tensor_name(kind, step_, rank),
                  values != nullptr ? *values
                                    : Vector<float>(Vector<float>::Zero(head_.problem.layout.size())));
        }
    }
}

void TraceWriter::finish() {
    for (const auto& [name, bits] : masks_)
        file_.write_u8(name, bits);
    file_.finish();
}

} // namespace scape::verify
