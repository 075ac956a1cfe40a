#include <scape/verify/trace.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <span>
#include <utility>

#include <scape/problem/error.hpp>
#include <scape/problem/text.hpp>
#include <scape/trace/fingerprint.hpp>

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

void expect_result(const SafetensorsFile& file, const std::string& tensor, const ResultKind& kind,
                   Index size) {
    if (kind.is_mask)
        expect(file, tensor, DataType::u8, unsigned_size((size + 7) / 8));
    else
        expect(file, tensor, DataType::f32, unsigned_size(size));
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
            const bool replicas = is_replicated(kind) && examine_replicas(kind, step, known);
            for (int rank = 0; rank < (kind.per_rank ? head_.problem.workers : 1); ++rank) {
                const std::string name = tensor_name(kind, step, rank);
                if (replicas || file_.find(name) != nullptr)
                    held.insert(kind.result);
                else
                    missing[kind.result].push_back(name);
                if (file_.find(name) == nullptr)
                    continue;
                expect_result(file_, name, kind, size);
                known.insert(name);
                replica_counts_.once += is_replicated(kind) && !replicas ? 1 : 0;
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

bool TraceReader::examine_replicas(const ResultKind& kind, Index step, std::set<std::string>& known) {
    const int workers = head_.problem.workers;
    std::string missing;
    int copies = 0;
    for (int rank = 0; rank < workers; ++rank) {
        const std::string name = copy_name(kind, step, rank);
        if (file_.find(name) == nullptr) {
            missing += (missing.empty() ? "" : ", ") + name;
            continue;
        }
        ++copies;
        expect_result(file_, name, kind, head_.problem.layout.size());
        known.insert(name);
    }
    if (copies > 0 && copies < workers)
        throw Error(path().string() + ": of " + std::to_string(workers) + " ranks' copies of " +
                    tensor_name(kind, step, 0) + " " + missing + (copies + 1 == workers ? " is" : " are") +
                    " missing; record every rank's, or none");
    const std::string fingerprint = fingerprint_name(kind, step);
    const bool has_fingerprints = file_.find(fingerprint) != nullptr;
    if (has_fingerprints) {
        expect(file_, fingerprint, DataType::u64, static_cast<std::uint64_t>(workers));
        known.insert(fingerprint);
    }
    replica_counts_.copies += copies > 0 ? 1 : 0;
    replica_counts_.fingerprints += has_fingerprints ? 1 : 0;
    return copies > 0 || has_fingerprints;
}

std::vector<float> TraceReader::gradient(Index step, int rank) const {
    return file_.read_f32(gradient_name(step, rank));
}

std::string TraceReader::representative(const ResultKind& kind, Index step, int rank) const {
    std::string name = tensor_name(kind, step, rank);
    if (file_.find(name) == nullptr && is_replicated(kind))
        name = copy_name(kind, step, 0);
    return file_.find(name) == nullptr ? "" : name;
}

std::optional<std::vector<float>> TraceReader::values(const ResultKind& kind, Index step, int rank) const {
    const std::string name = representative(kind, step, rank);
    if (name.empty())
        return std::nullopt;
    return file_.read_f32(name);
}

std::optional<std::vector<std::uint8_t>> TraceReader::mask(const ResultKind& kind, Index step) const {
    const std::string name = representative(kind, step, 0);
    if (name.empty())
        return std::nullopt;
    return file_.read_u8(name);
}

template <class Element, class Read>
Replicated<Element> TraceReader::replicated(const ResultKind& kind, Index step, const Read& read) const {
    Replicated<Element> result;
    if (const std::string name = tensor_name(kind, step, 0); file_.find(name) != nullptr)
        result.shared = read(name);
    if (file_.find(copy_name(kind, step, 0)) != nullptr)
        for (int rank = 0; rank < head_.problem.workers; ++rank)
            result.copies.push_back(read(copy_name(kind, step, rank)));
    if (const std::string name = fingerprint_name(kind, step); file_.find(name) != nullptr)
        result.fingerprints = file_.read_u64(name);
    return result;
}

Replicated<float> TraceReader::replicated_values(const ResultKind& kind, Index step) const {
    return replicated<float>(kind, step, [&](const std::string& name) { return file_.read_f32(name); });
}

Replicated<std::uint8_t> TraceReader::replicated_mask(const ResultKind& kind, Index step) const {
    return replicated<std::uint8_t>(kind, step,
                                    [&](const std::string& name) { return file_.read_u8(name); });
}

bool TraceReader::states_recorded() const {
    for (Index step = 1; step <= head_.steps(); ++step)
        for (const ResultKind& kind : result_kinds) {
            const bool state = has(head_.problem.algorithm, kind) && !kind.intermediate && !kind.is_mask;
            for (int rank = 0; state && rank < (kind.per_rank ? head_.problem.workers : 1); ++rank)
                if (representative(kind, step, rank).empty())
                    return false;
        }
    return true;
}

TraceWriter::TraceWriter(const std::filesystem::path& path, TraceHead head, bool intermediates,
                         Replicas replicas)
    : head_(std::move(head)), intermediates_(intermediates),
      replicas_(head_.problem.workers > 1 ? replicas : Replicas::none),
      file_(path, {{"format", std::string(format_name)},
                   {"version", std::string(format_version)},
                   {"source", head_.source},
                   {"config", config_text(head_.problem, head_.steps())}}) {
    declare();
    file_.write_f64("learning_rate", head_.learning_rate);
    file_.write_f64("density", head_.density);
    file_.write_f32("initial/parameters", head_.initial_parameters);
}

void TraceWriter::declare() {
    const std::uint64_t size = unsigned_size(head_.problem.layout.size());
    file_.declare("learning_rate", DataType::f64, {head_.learning_rate.size()});
    file_.declare("density", DataType::f64, {head_.density.size()});
    file_.declare("initial/parameters", DataType::f32, {size});
    const auto declare_results = [&](Index step, bool masks) {
        for (const ResultKind& kind : result_kinds)
            if (writes(kind) && kind.is_mask == masks)
                for (const std::string& name : names(kind, step))
                    file_.declare(name, masks ? DataType::u8 : DataType::f32,
                                  {masks ? (size + 7) / 8 : size});
    };
    for (Index step = 1; step <= head_.steps(); ++step) {
        for (int rank = 0; rank < head_.problem.workers; ++rank)
            file_.declare(gradient_name(step, rank), DataType::f32, {size});
        declare_results(step, false);
    }
    for (Index step = 1; replicas_ == Replicas::fingerprints && step <= head_.steps(); ++step)
        for (const ResultKind& kind : result_kinds)
            if (is_replicated(kind))
                file_.declare(fingerprint_name(kind, step), DataType::u64,
                              {static_cast<std::uint64_t>(head_.problem.workers)});
    for (Index step = 1; step <= head_.steps(); ++step)
        declare_results(step, true);
}

bool TraceWriter::writes(const ResultKind& kind) const {
    return (!kind.intermediate || intermediates_) && has(head_.problem.algorithm, kind);
}

std::vector<std::string> TraceWriter::names(const ResultKind& kind, Index step) const {
    const bool copies = is_replicated(kind) && replicas_ == Replicas::copies;
    std::vector<std::string> all;
    for (int rank = 0; rank < (kind.per_rank || copies ? head_.problem.workers : 1); ++rank)
        all.push_back(copies ? copy_name(kind, step, rank) : tensor_name(kind, step, rank));
    return all;
}

void TraceWriter::write_step(const PerRank<float>& gradients, const StepResults<float>& results,
                             const std::vector<Replica>& own) {
    ++step_;
    const auto span_of = [](const Vector<float>& values) {
        return std::span<const float>(values.data(), static_cast<std::size_t>(values.size()));
    };
    for (int rank = 0; rank < head_.problem.workers; ++rank)
        file_.write_f32(gradient_name(step_, rank), span_of(gradients[static_cast<std::size_t>(rank)]));
    const Vector<float> zeros = Vector<float>::Zero(head_.problem.layout.size());
    for (const ResultKind& kind : result_kinds) {
        if (!writes(kind))
            continue;
        // What all ranks have is made once, whoever writes it.
        std::vector<std::uint8_t> bits;
        if (kind.is_mask)
            bits = to_bits(results.mask_of(kind.result), head_.problem.layout.size());
        const auto all_names = names(kind, step_);
        for (std::size_t rank = 0; rank < all_names.size(); ++rank) {
            const bool of_own = is_replicated(kind) && rank < own.size();
            if (kind.is_mask) {
                masks_.emplace_back(all_names[rank], of_own ? own[rank].mask_of(kind.result) : bits);
                continue;
            }
            const Vector<float>* values = of_own ? &own[rank].values(kind.result)
                                                 : results.values(kind.result, static_cast<int>(rank));
            file_.write_f32(all_names[rank], span_of(values != nullptr ? *values : zeros));
        }
        if (!is_replicated(kind) || replicas_ != Replicas::fingerprints)
            continue;
        std::vector<std::uint64_t> fingerprints;
        for (std::size_t rank = 0; rank < static_cast<std::size_t>(head_.problem.workers); ++rank)
            fingerprints.push_back(
                kind.is_mask
                    ? trace::fingerprint(std::span<const std::uint8_t>(
                          rank < own.size() ? own[rank].mask_of(kind.result) : bits))
                    : trace::fingerprint(span_of(rank < own.size() ? own[rank].values(kind.result)
                                                                   : *results.values(kind.result, 0))));
        fingerprints_.emplace_back(fingerprint_name(kind, step_), std::move(fingerprints));
    }
}

void TraceWriter::finish() {
    for (const auto& [name, fingerprints] : fingerprints_)
        file_.write_u64(name, fingerprints);
    for (const auto& [name, bits] : masks_)
        file_.write_u8(name, bits);
    file_.finish();
}

} // namespace scape::verify
