// Writes a trace step by step, with copies or fingerprints of the replicas.
#include <truestep/trace/writer.hpp>

#include <cstddef>

#include <truestep/trace/fingerprint.hpp>

#include "format.hpp"

namespace truestep::trace {

Writer::Writer(const std::filesystem::path& path, Schema schema, const std::string& source,
               bool intermediates, Replicas replicas)
    : schema_(std::move(schema)), intermediates_(intermediates),
      replicas_(schema_.workers > 1 ? replicas : Replicas::none),
      file_(path, {{"format", std::string(format_name)},
                   {"version", std::string(format_version)},
                   {"source", source},
                   {"config", schema_.config}}) {
    declare();
}

void Writer::declare() {
    const std::uint64_t size = static_cast<std::uint64_t>(schema_.layout.size());
    const auto declare_series = [this](bool masks) {
        for (const Series& series : schema_.series)
            if ((series.type == DataType::u8) == masks)
                file_.declare(series.name, series.type, {series.count});
    };
    declare_series(false);
    for (Index step = 1; step <= schema_.steps; ++step) {
        for (const Kind& kind : schema_.inputs)
            for (int rank = 0; rank < (kind.per_rank ? schema_.workers : 1); ++rank)
                if (schema_.has_input(kind, step, rank))
                    file_.declare(tensor_name(kind, step, rank), DataType::f32, {size});
        declare_results(step, false);
    }
    for (Index step = 1; replicas_ == Replicas::fingerprints && step <= schema_.steps; ++step)
        for (const Result& result : schema_.results)
            if (is_replicated(result.kind))
                file_.declare(fingerprint_name(result.kind, step), DataType::u64,
                              {static_cast<std::uint64_t>(schema_.workers)});
    declare_series(true);
    for (Index step = 1; step <= schema_.steps; ++step)
        declare_results(step, true);
}

void Writer::declare_results(Index step, bool masks) {
    const Index size = schema_.layout.size();
    for (const Result& result : schema_.results)
        if (writes(result.kind) && result.kind.is_mask == masks)
            for (const std::string& name : names_of(result.kind, step))
                file_.declare(name, masks ? DataType::u8 : DataType::f32,
                              {masks ? mask_bytes(size) : static_cast<std::uint64_t>(size)});
}

bool Writer::writes(const Kind& kind) const {
    return !kind.intermediate || intermediates_;
}

std::vector<std::string> Writer::names_of(const Kind& kind, Index step) const {
    const bool copies = is_replicated(kind) && replicas_ == Replicas::copies;
    const int count = kind.per_rank || copies ? schema_.workers : 1;
    std::vector<std::string> all;
    all.reserve(static_cast<std::size_t>(count));
    for (int rank = 0; rank < count; ++rank)
        all.push_back(copies ? copy_name(kind, step, rank) : tensor_name(kind, step, rank));
    return all;
}

void Writer::series(const std::string& name, std::span<const double> values) {
    file_.write_f64(name, values);
}

void Writer::series(const std::string& name, std::span<const float> values) {
    file_.write_f32(name, values);
}

void Writer::series(const std::string& name, std::span<const std::uint8_t> bits) {
    write(name, bits);
}

void Writer::input(const Kind& kind, int rank, std::span<const float> values) {
    file_.write_f32(tensor_name(kind, step_, rank), values);
}

void Writer::write(const std::string& tensor, std::span<const float> values) {
    file_.write_f32(tensor, values);
}

void Writer::write(const std::string& tensor, std::span<const std::uint8_t> bits) {
    masks_.emplace_back(tensor, std::vector<std::uint8_t>(bits.begin(), bits.end()));
}

void Writer::note_fingerprint(const Kind& kind, std::span<const float> values) {
    note_fingerprint(kind, fingerprint(values));
}

void Writer::note_fingerprint(const Kind& kind, std::span<const std::uint8_t> bits) {
    note_fingerprint(kind, fingerprint(bits));
}

void Writer::note_fingerprint(const Kind& kind, std::uint64_t fingerprint) {
    const std::string name = fingerprint_name(kind, step_);
    if (fingerprints_.empty() || fingerprints_.back().first != name)
        fingerprints_.emplace_back(name, std::vector<std::uint64_t>());
    fingerprints_.back().second.push_back(fingerprint);
}

void Writer::finish() {
    for (const auto& [name, fingerprints] : fingerprints_)
        file_.write_u64(name, fingerprints);
    for (const auto& [name, bits] : masks_)
        file_.write_u8(name, bits);
    file_.finish();
}

} // namespace truestep::trace
