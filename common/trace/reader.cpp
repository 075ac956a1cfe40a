// Reads inputs, results and replicas of any step and rank from a trace, whole or in part.
#include <truestep/trace/reader.hpp>

#include <cstddef>
#include <span>
#include <utility>

#include <truestep/problem/error.hpp>

namespace truestep::trace {

namespace {

void expect(const Bundle& files, const std::string& tensor, DataType type, std::uint64_t count) {
    const storage::SafetensorsFile& file = files.holder(tensor);
    const storage::TensorEntry* entry = file.find(tensor);
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

} // namespace

Reader::Reader(const std::filesystem::path& path,
               const std::function<Schema(const std::string&, const std::string&)>& schema_of)
    : file_(path), schema_(schema_of(file_.config(), path.string() + ": config")) {
    examine_tensors();
}

void Reader::examine_tensors() {
    std::set<std::string> known;
    std::erase_if(schema_.series,
                  [this](const Series& series) { return series.optional && !file_.holds(series.name); });
    for (const Series& series : schema_.series) {
        expect(file_, series.name, series.type, series.count);
        known.insert(series.name);
    }
    const auto ranks_of = [this](const Kind& kind) { return kind.per_rank ? schema_.workers : 1; };
    std::vector<std::vector<std::string>> missing(schema_.results.size());
    std::set<std::size_t> held;
    for (Index step = 1; step <= schema_.steps; ++step) {
        for (const Kind& kind : schema_.inputs)
            for (int rank = 0; rank < ranks_of(kind); ++rank)
                if (schema_.has_input(kind, step, rank)) {
                    const std::string name = tensor_name(kind, step, rank);
                    expect_vector(name, kind);
                    known.insert(name);
                }
        for (std::size_t i = 0; i < schema_.results.size(); ++i) {
            const Kind& kind = schema_.results[i].kind;
            const bool replicas = is_replicated(kind) && examine_replicas(kind, step, known);
            for (int rank = 0; rank < ranks_of(kind); ++rank) {
                const std::string name = tensor_name(kind, step, rank);
                const bool here = file_.holds(name);
                if (here || replicas)
                    held.insert(i);
                else
                    missing[i].push_back(name);
                if (!here)
                    continue;
                expect_vector(name, kind);
                known.insert(name);
                replica_counts_.once += is_replicated(kind) && !replicas ? 1 : 0;
            }
        }
    }
    for (const std::size_t i : held)
        missing_.insert(missing_.end(), missing[i].begin(), missing[i].end());
    for (const std::string& name : file_.names())
        if (!known.contains(name))
            unknown_.push_back(name);
    if (!held.empty())
        return;
    std::string results;
    for (const Result& result : schema_.results)
        if (!result.kind.intermediate)
            results += (results.empty() ? "" : ", ") + std::string(result.kind.name);
    throw Error(path().string() +
                ": the trace holds no result of any step, so there is nothing to compare; record some of " +
                results);
}

void Reader::expect_vector(const std::string& tensor, const Kind& kind) const {
    const Index size = schema_.layout.size();
    expect(file_, tensor, kind.is_mask ? DataType::u8 : DataType::f32,
           kind.is_mask ? mask_bytes(size) : static_cast<std::uint64_t>(size));
}

bool Reader::examine_replicas(const Kind& kind, Index step, std::set<std::string>& known) {
    const int workers = schema_.workers;
    std::string missing;
    int copies = 0;
    for (int rank = 0; rank < workers; ++rank) {
        const std::string name = copy_name(kind, step, rank);
        if (!file_.holds(name)) {
            missing += (missing.empty() ? "" : ", ") + name;
            continue;
        }
        ++copies;
        expect_vector(name, kind);
        known.insert(name);
    }
    if (copies > 0 && copies < workers)
        throw Error(path().string() + ": of " + std::to_string(workers) + " ranks' copies of " +
                    tensor_name(kind, step, 0) + " " + missing + (copies + 1 == workers ? " is" : " are") +
                    " missing; record every rank's, or none");
    const std::string fingerprint = fingerprint_name(kind, step);
    const bool has_fingerprints = file_.holds(fingerprint);
    if (has_fingerprints) {
        expect(file_, fingerprint, DataType::u64, static_cast<std::uint64_t>(workers));
        known.insert(fingerprint);
    }
    replica_counts_.copies += copies > 0 ? 1 : 0;
    replica_counts_.fingerprints += has_fingerprints ? 1 : 0;
    return copies > 0 || has_fingerprints;
}

std::vector<double> Reader::series_f64(const std::string& name) const {
    return file_.holder(name).read_f64(name);
}

std::vector<float> Reader::series_f32(const std::string& name, Part part) const {
    return floats(name, part);
}

std::vector<std::uint8_t> Reader::series_u8(const std::string& name, Part part) const {
    return bits(name, part);
}

std::vector<float> Reader::floats(const std::string& tensor, const Part& part) const {
    const storage::SafetensorsFile& file = file_.holder(tensor);
    if (!part)
        return file.read_f32(tensor);
    std::vector<float> values(static_cast<std::size_t>(part->size()));
    file.read_raw(*file.find(tensor), static_cast<std::uint64_t>(part->begin) * sizeof(float),
                  std::as_writable_bytes(std::span(values)));
    return values;
}

/// Padding bits behind the last coordinate stay in the window that ends there, as far as it has room.
std::vector<std::uint8_t> Reader::bits(const std::string& tensor, const Part& part) const {
    const storage::SafetensorsFile& file = file_.holder(tensor);
    if (!part)
        return file.read_u8(tensor);
    const auto begin = static_cast<std::uint64_t>(part->begin);
    const auto end = static_cast<std::uint64_t>(part->end);
    std::vector<std::uint8_t> held((end + 7) / 8 - begin / 8);
    file.read_raw(*file.find(tensor), begin / 8, std::as_writable_bytes(std::span(held)));
    held.push_back(0);
    std::vector<std::uint8_t> moved(mask_bytes(part->size()));
    for (std::size_t i = 0; i < moved.size(); ++i)
        moved[i] = static_cast<std::uint8_t>((held[i] | (held[i + 1] << 8U)) >> (begin % 8));
    if (part->end < schema_.layout.size() && part->size() % 8 != 0)
        moved.back() &= static_cast<std::uint8_t>((1U << static_cast<unsigned>(part->size() % 8)) - 1U);
    return moved;
}

std::vector<float> Reader::input(const Kind& kind, Index step, int rank, Part part) const {
    return floats(tensor_name(kind, step, rank), part);
}

std::string Reader::representative(const Kind& kind, Index step, int rank) const {
    std::string name = tensor_name(kind, step, rank);
    if (!file_.holds(name) && is_replicated(kind))
        name = copy_name(kind, step, 0);
    return file_.holds(name) ? name : "";
}

std::optional<std::vector<float>> Reader::values(const Kind& kind, Index step, int rank, Part part) const {
    const std::string name = representative(kind, step, rank);
    if (name.empty())
        return std::nullopt;
    return floats(name, part);
}

std::optional<std::vector<std::uint8_t>> Reader::mask(const Kind& kind, Index step, Part part) const {
    const std::string name = representative(kind, step, 0);
    if (name.empty())
        return std::nullopt;
    return bits(name, part);
}

template <class Element, class Read>
ReplicatedValues<Element> Reader::replicated(const Kind& kind, Index step, const Read& read) const {
    ReplicatedValues<Element> result;
    if (const std::string name = tensor_name(kind, step, 0); file_.holds(name))
        result.shared = read(name);
    if (file_.holds(copy_name(kind, step, 0)))
        for (int rank = 0; rank < schema_.workers; ++rank)
            result.copies.push_back(read(copy_name(kind, step, rank)));
    if (const std::string name = fingerprint_name(kind, step); file_.holds(name))
        result.fingerprints = file_.holder(name).read_u64(name);
    return result;
}

ReplicatedValues<float> Reader::replicated_values(const Kind& kind, Index step, Part part) const {
    return replicated<float>(kind, step, [&](const std::string& name) { return floats(name, part); });
}

ReplicatedValues<std::uint8_t> Reader::replicated_mask(const Kind& kind, Index step, Part part) const {
    return replicated<std::uint8_t>(kind, step, [&](const std::string& name) { return bits(name, part); });
}

bool Reader::states_recorded() const {
    for (Index step = 1; step <= schema_.steps; ++step)
        for (const Result& result : schema_.results) {
            const Kind& kind = result.kind;
            const bool state = !kind.intermediate && !kind.is_mask;
            for (int rank = 0; state && rank < (kind.per_rank ? schema_.workers : 1); ++rank)
                if (representative(kind, step, rank).empty())
                    return false;
        }
    return true;
}

} // namespace truestep::trace
