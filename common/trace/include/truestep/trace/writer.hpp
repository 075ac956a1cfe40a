#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <truestep/storage/safetensors.hpp>
#include <truestep/trace/schema.hpp>

namespace truestep::trace {

/// Writes a trace: the series, then the steps in order, each in the schema's order. finish() makes
/// the file appear.
class Writer {
  public:
    /// `intermediates` also writes these. With one rank there are no replicas.
    Writer(const std::filesystem::path& path, Schema schema, const std::string& source, bool intermediates,
           Replicas replicas);

    void series(const std::string& name, std::span<const double> values);
    void series(const std::string& name, std::span<const float> values);
    void series(const std::string& name, std::span<const std::uint8_t> bits);

    void begin_step() { ++step_; }
    void input(const Kind& kind, int rank, std::span<const float> values);

    /// Does this trace hold results of this kind?
    [[nodiscard]] bool writes(const Kind& kind) const;
    /// `of_rank(r)` returns a rank's vector, or bits; r is 0 for an intermediate that all ranks
    /// share. It is called for no more ranks than the trace needs.
    template <class OfRank>
    void result(const Kind& kind, const OfRank& of_rank) {
        if (!writes(kind))
            return;
        const std::vector<std::string> names = names_of(kind, step_);
        for (std::size_t rank = 0; rank < names.size(); ++rank)
            write(names[rank], of_rank(static_cast<int>(rank)));
        if (is_replicated(kind) && replicas_ == Replicas::fingerprints)
            for (int rank = 0; rank < schema_.workers; ++rank)
                note_fingerprint(kind, of_rank(rank));
    }

    void finish();

  private:
    void declare();
    void declare_results(Index step, bool masks);
    /// The names of one result's tensors.
    [[nodiscard]] std::vector<std::string> names_of(const Kind& kind, Index step) const;
    void write(const std::string& tensor, std::span<const float> values);
    void write(const std::string& tensor, std::span<const std::uint8_t> bits);
    void note_fingerprint(const Kind& kind, std::span<const float> values);
    void note_fingerprint(const Kind& kind, std::span<const std::uint8_t> bits);
    void note_fingerprint(const Kind& kind, std::uint64_t fingerprint);

    Schema schema_;
    bool intermediates_;
    Replicas replicas_;
    Index step_ = 0;
    storage::SafetensorsWriter file_;
    /// Written last, so that floats stay aligned.
    std::vector<std::pair<std::string, std::vector<std::uint8_t>>> masks_;
    /// Written between the floats and the masks.
    std::vector<std::pair<std::string, std::vector<std::uint64_t>>> fingerprints_;
};

} // namespace truestep::trace
