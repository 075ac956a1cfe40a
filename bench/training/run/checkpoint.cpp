// Stores a run in one safetensors file: every rank's vectors and words under "rank0/...", the rest
// in the metadata.
#include "checkpoint.hpp"

#include <bit>
#include <map>

#include <truestep/problem/error.hpp>
#include <truestep/problem/mix64.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/storage/safetensors.hpp>

#include "json.hpp"

namespace truestep::training {

namespace {

using Json = nlohmann::ordered_json;
using Path = std::filesystem::path;
using storage::DataType;

constexpr std::string_view format = "scape-training-1";

/// A checksum of a sequence of values, with their names; any changed bit changes it.
class Checksum {
  public:
    void add(std::string_view name, const std::vector<float>& values) {
        add(name);
        for (const float value : values)
            add(std::bit_cast<std::uint32_t>(value));
    }
    void add(std::string_view name, const std::vector<std::uint64_t>& values) {
        add(name);
        for (const std::uint64_t value : values)
            add(value);
    }
    void add(std::string_view text) {
        for (const char letter : text)
            add(static_cast<unsigned char>(letter));
        add(text.size());
    }
    [[nodiscard]] std::string text() const { return std::to_string(sum_); }

  private:
    void add(std::uint64_t value) { sum_ = problem::mix64(sum_ * 3 + value + 1); }

    std::uint64_t sum_ = 0;
};

std::string name_of(std::size_t rank, const std::string& part) {
    return "rank" + std::to_string(rank) + "/" + part;
}

/// Calls use(name, values) for all vectors and words of all ranks, in one order.
template <class Use>
void for_all(const std::vector<peers::State>& ranks, const Use& use) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        for (const auto& [name, values] : ranks[rank].vectors)
            use(name_of(rank, name), values);
        for (const auto& [name, values] : ranks[rank].words)
            use(name_of(rank, name), values);
    }
}

std::string checksum_of(const std::string& run, const std::vector<peers::State>& ranks) {
    Checksum sum;
    sum.add(run);
    for_all(ranks, [&](const std::string& name, const auto& values) { sum.add(name, values); });
    return sum.text();
}

/// "steps is 20 here and 40 there", for the first setting in which two runs differ.
std::string first_difference(const Json& here, const Json& there) {
    const Json mine = here.flatten();
    const Json theirs = there.flatten();
    for (const auto& [key, value] : mine.items())
        if (!theirs.contains(key) || theirs[key] != value)
            return key.substr(key.rfind('/') + 1) + " is " + value.dump() + " here and " +
                   (theirs.contains(key) ? theirs[key].dump() : "missing") + " there";
    return "it has settings that are not known here";
}

std::vector<peers::State> states_in(const storage::SafetensorsFile& file, std::size_t ranks) {
    std::vector<peers::State> states(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        const std::string prefix = name_of(rank, "");
        for (const storage::TensorEntry& entry : file.tensors()) {
            if (!entry.name.starts_with(prefix))
                continue;
            const std::string part = entry.name.substr(prefix.size());
            if (entry.type == DataType::f32)
                states[rank].vectors[part] = file.read_f32(entry.name);
            else
                states[rank].words[part] = file.read_u64(entry.name);
        }
    }
    return states;
}

} // namespace

Json identity_of(const Text& text, const Plan& plan, const std::string& optimizer, std::uint64_t seed) {
    const auto digest = [](const std::vector<std::uint8_t>& symbols) {
        Checksum sum;
        sum.add(std::string_view(reinterpret_cast<const char*>(symbols.data()), symbols.size()));
        return sum.text();
    };
    return {{"optimizer", optimizer},
            {"seed", seed},
            {"plan", json_of(plan, text.symbols)},
            {"text learned from", digest(text.learned)},
            {"text measured on", digest(text.measured)}};
}

Path checkpoint_path(const Path& folder, const std::string& optimizer, std::uint64_t seed) {
    return folder / (optimizer + ".seed-" + std::to_string(seed) + ".safetensors");
}

void save(const Path& path, const Json& identity, const Checkpoint& checkpoint) {
    const Json run{{"identity", identity},
                   {"step", checkpoint.step},
                   {"sent", checkpoint.sent},
                   {"points", json_of(checkpoint.points)}};
    const std::string text = run.dump();
    storage::SafetensorsWriter writer(path, {{"format", std::string(format)},
                                             {"run", text},
                                             {"checksum", checksum_of(text, checkpoint.ranks)}});
    for_all(checkpoint.ranks, [&](const std::string& name, const auto& values) {
        constexpr bool words = sizeof(values[0]) == 8;
        writer.declare(name, words ? DataType::u64 : DataType::f32, {values.size()});
    });
    for_all(checkpoint.ranks, [&](const std::string& name, const auto& values) {
        if constexpr (sizeof(values[0]) == 8)
            writer.write_u64(name, values);
        else
            writer.write_f32(name, values);
    });
    writer.finish();
}

std::optional<Checkpoint> load(const Path& path, const Json& identity) {
    if (!std::filesystem::exists(path))
        return std::nullopt;
    const storage::SafetensorsFile file(path);
    const auto word = [&](const std::string& key) {
        const auto found = file.metadata().find(key);
        return found == file.metadata().end() ? std::string() : found->second;
    };
    if (word("format") != format)
        throw Error(path.string() + " is not a checkpoint of a training run; give another folder");
    try {
        const Json run = Json::parse(word("run"));
        const Json& there = run.at("identity");
        if (there != identity)
            throw Error(path.string() +
                        " is of another run: " + one_line(first_difference(identity, there)) +
                        "; give another folder, or remove it to begin anew");
        Checkpoint checkpoint{run.at("step"), points_of(run.at("points")), run.at("sent"), {}};
        checkpoint.ranks = states_in(file, checkpoint.sent.size());
        if (checksum_of(word("run"), checkpoint.ranks) != word("checksum"))
            throw Error(path.string() +
                        " is damaged: its checksum does not match; remove it to begin anew");
        return checkpoint;
    } catch (const Json::exception&) {
        throw Error(path.string() + " is damaged: its run cannot be identified; remove it to begin anew");
    }
}

} // namespace truestep::training
