#include <truestep/gasloc/checkpoint.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <truestep/problem/error.hpp>
#include <truestep/problem/mix64.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/storage/safetensors.hpp>

namespace truestep::gasloc {

namespace {

namespace fs = std::filesystem;
using storage::DataType;
using storage::FileKind;
using storage::FileSystem;
using storage::make_lasting_folder;
using storage::require_none;
using Metadata = std::map<std::string, std::string>;

constexpr std::string_view format = "gasloc-checkpoint-1";
constexpr std::string_view suffix = ".safetensors";

/// The parts of a state, by the names of their tensors.
constexpr std::array<std::pair<const char*, std::vector<float> State::*>, 4> parts{
    {{"theta", &State::theta}, {"before", &State::before}, {"m", &State::m}, {"v", &State::v}}};

std::string round_folder(Index round) {
    std::array<char, 48> text{};
    std::snprintf(text.data(), text.size(), "round-%010lld", static_cast<long long>(round));
    return text.data();
}

std::string worker_file(int rank, int workers) {
    return "worker-" + std::to_string(rank) + "-of-" + std::to_string(workers) + std::string(suffix);
}

/// All that a run cannot change half-way. alpha, gamma and eta may be on a schedule of the user's own.
std::string settings_text(const Settings& settings) {
    std::string text = "inner " + std::string(name(settings.inner)) + ", momentum " +
                       std::string(name(settings.momentum)) + ", law " + std::string(name(settings.law)) +
                       ", seed " + std::to_string(settings.seed);
    for (const auto& [what, value] : {std::pair{"beta1", settings.hyper.beta1},
                                      {"beta2", settings.hyper.beta2},
                                      {"epsilon", settings.hyper.epsilon}})
        text += std::string(", ") + what + " " + shortest(value);
    return text + ", bias_correction " + std::string(name(settings.hyper.bias_correction));
}

/// In which a change of any one byte shows, of the metadata and of every value.
std::string checksum(const Metadata& metadata, const State& state) {
    std::uint64_t sum = 0x9ae1'6a3b'2f90'404fU;
    const auto add = [&sum](std::uint64_t word) { sum = problem::mix64(sum ^ word) + word; };
    for (const auto& [key, value] : metadata)
        if (key != "checksum")
            for (const std::string& text : {key, value}) {
                add(text.size());
                for (const char letter : text)
                    add(static_cast<unsigned char>(letter));
            }
    for (const auto& [name, part] : parts) {
        add((state.*part).size());
        for (const float value : state.*part)
            add(std::bit_cast<std::uint32_t>(value));
    }
    return std::to_string(sum);
}

/// Of how many workers all files are there; 0: of none.
int complete(const FileSystem& files, const fs::path& checkpoint) {
    std::error_code error;
    const std::vector<std::string> names = files.list(checkpoint, error);
    require_none(error, checkpoint, "it cannot be read");
    const std::set<std::string> there(names.begin(), names.end());
    for (const std::string& name : names) {
        const std::size_t of = name.rfind("-of-");
        if (of == std::string::npos || !name.ends_with(suffix))
            continue;
        const Index workers =
            parse_number<Index>(std::string_view(name).substr(of + 4, name.size() - of - 4 - suffix.size()))
                .value_or(-1);
        if (workers < 1 || workers > problem::most_workers)
            continue;
        int rank = 0;
        while (rank < workers && there.contains(worker_file(rank, static_cast<int>(workers))))
            ++rank;
        if (rank == workers)
            return static_cast<int>(workers);
    }
    return 0;
}

/// One worker's file, once it has been found to be what it says.
State read(const FileSystem& files, const fs::path& path, const Settings& settings) {
    const storage::SafetensorsFile file(path, files);
    const auto wrong = [&path](const std::string& what) {
        return Error(path.string() + ": " + one_line(what) + "; use another checkpoint");
    };
    const auto of = [&](const char* key) {
        const auto found = file.metadata().find(key);
        if (found == file.metadata().end())
            throw wrong(std::string("it has no ") + key);
        return found->second;
    };
    if (of("format") != format)
        throw wrong("it is no " + std::string(format));
    if (of("settings") != settings_text(settings))
        throw wrong("it is of " + of("settings") + ", and this run is of " + settings_text(settings));
    State state{parse_number<Index>(of("round")).value_or(-1),
                parse_number<Index>(of("s")).value_or(-1),
                {},
                {},
                {},
                {}};
    for (const auto& [name, part] : parts)
        state.*part = file.read_f32(name);
    if (state.rounds < 0 || state.s < 0 || checksum(file.metadata(), state) != of("checksum"))
        throw wrong("it is damaged: its checksum is not its content's");
    return state;
}

void add(State& sum, const State& other, const fs::path& path) {
    for (const auto& [name, part] : parts) {
        std::vector<float>& into = sum.*part;
        const std::vector<float>& from = other.*part;
        if (into.size() != from.size() || sum.rounds != other.rounds)
            throw Error(path.string() +
                        ": it is not of the same model and round as worker 0's; use another "
                        "checkpoint");
        for (std::size_t i = 0; i < into.size(); ++i)
            into[i] = into[i] + from[i];
    }
    sum.s = std::max(sum.s, other.s);
}

} // namespace

fs::path save(const fs::path& folder, const Settings& settings, const State& state, int rank, int workers,
              FileSystem& files) {
    fs::path checkpoint = folder / round_folder(state.rounds);
    make_lasting_folder(files, checkpoint);
    Metadata metadata{{"format", std::string(format)},
                      {"settings", settings_text(settings)},
                      {"round", std::to_string(state.rounds)},
                      {"s", std::to_string(state.s)}};
    metadata["checksum"] = checksum(metadata, state);
    storage::SafetensorsWriter writer(checkpoint / worker_file(rank, workers), metadata, files);
    for (const auto& [name, part] : parts)
        writer.declare(name, DataType::f32, {(state.*part).size()});
    for (const auto& [name, part] : parts)
        writer.write_f32(name, state.*part);
    writer.finish();
    require_none(files.sync_folder(checkpoint), checkpoint, "could not be made to last");
    return checkpoint;
}

std::optional<fs::path> latest(const fs::path& folder, const FileSystem& files) {
    if (files.kind(folder) == FileKind::none)
        return std::nullopt;
    std::error_code error;
    const std::vector<std::string> names = files.list(folder, error);
    require_none(error, folder, "it cannot be read");
    Index greatest = -1;
    for (const std::string& name : names) {
        const Index round = name.starts_with("round-")
                                ? parse_number<Index>(std::string_view(name).substr(6)).value_or(-1)
                                : -1;
        if (round > greatest && name == round_folder(round) && complete(files, folder / name) > 0)
            greatest = round;
    }
    return greatest < 0 ? std::nullopt : std::optional(folder / round_folder(greatest));
}

State load(const fs::path& checkpoint, const Settings& settings, int rank, int workers,
           const FileSystem& files) {
    if (files.kind(checkpoint) != FileKind::folder)
        throw Error(checkpoint.string() + ": there is no such checkpoint; give the folder of a round");
    const int made_by = complete(files, checkpoint);
    if (made_by == 0)
        throw Error(checkpoint.string() +
                    ": not all workers' files are there; use the checkpoint of an earlier round");
    if (made_by == workers)
        return read(files, checkpoint / worker_file(rank, workers), settings);
    State state = read(files, checkpoint / worker_file(0, made_by), settings);
    for (int other = 1; other < made_by; ++other) {
        const fs::path path = checkpoint / worker_file(other, made_by);
        add(state, read(files, path, settings), path);
    }
    const auto count = static_cast<float>(static_cast<double>(made_by));
    for (const auto& [name, part] : parts)
        for (float& value : state.*part)
            value = value / count;
    return state;
}

} // namespace truestep::gasloc
