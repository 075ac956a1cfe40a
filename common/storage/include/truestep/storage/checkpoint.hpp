#pragma once

#include <bit>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <truestep/problem/error.hpp>
#include <truestep/problem/mix64.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/storage/safetensors.hpp>

/// Shared by the checkpoints of all systems: numbered folders, and a file for each state.
namespace truestep::storage {

/// The name of a folder, such as "step-0000000012".
[[nodiscard]] std::string numbered_name(std::string_view what, std::int64_t number);
/// The number in such a name, or nothing for other names.
[[nodiscard]] std::optional<std::int64_t> number_in(std::string_view what, const std::string& name);
/// Throws Error if the folder cannot be read.
[[nodiscard]] std::set<std::string> names_in(const FileSystem& files, const std::filesystem::path& folder);
/// The complete folder in `folder` with the greatest number, or none. Throws Error if `folder`
/// exists but cannot be read.
[[nodiscard]] std::optional<std::filesystem::path>
latest_numbered(const FileSystem& files, const std::filesystem::path& folder, std::string_view what,
                const std::function<bool(const std::filesystem::path&)>& complete);

/// The name of one rank's file, such as "rank-0-of-4.safetensors".
[[nodiscard]] std::string name_of_part(std::string_view what, int rank, int ranks);
/// The numbers of ranks, ascending, of which all files are in the folder. Two of them are of two runs.
[[nodiscard]] std::vector<int> complete_parts(const FileSystem& files, const std::filesystem::path& folder,
                                              std::string_view what);
/// The number of ranks whose files make up this checkpoint, the folder of a `unit`. Throws Error where it
/// is none, or where runs of two numbers of ranks have saved to it.
[[nodiscard]] int ranks_of(const FileSystem& files, const std::filesystem::path& checkpoint,
                           std::string_view what, const std::string& unit);

/// How a file holds a state: whole numbers in the metadata, vectors as tensors.
template <class State>
struct StateFormat {
    std::string name;
    std::uint64_t seed; ///< of the checksum
    std::vector<std::pair<std::string, std::int64_t State::*>> counts;
    std::vector<std::pair<std::string, std::vector<float> State::*>> parts;
};
/// The words that identify a run, such as "settings". They must be the same where the state is
/// loaded.
using Words = std::map<std::string, std::string>;

/// A checksum over the metadata and every value; it reveals a change of any one byte.
template <class State>
[[nodiscard]] std::string checksum(const StateFormat<State>& format, const Words& metadata,
                                   const State& state) {
    std::uint64_t sum = format.seed;
    const auto add = [&sum](std::uint64_t word) { sum = problem::mix64(sum ^ word) + word; };
    for (const auto& [key, value] : metadata)
        if (key != "checksum")
            for (const std::string& text : {key, value}) {
                add(text.size());
                for (const char letter : text)
                    add(static_cast<unsigned char>(letter));
            }
    for (const auto& [name, part] : format.parts) {
        add((state.*part).size());
        for (const float value : state.*part)
            add(std::bit_cast<std::uint32_t>(value));
    }
    return std::to_string(sum);
}

/// The first setting that differs in two lists with commas: "alpha 0.5 where this run has alpha 1".
[[nodiscard]] std::string difference(const std::string& there, const std::string& here);

/// Saves a state and makes the folder, too. Returns when both are safe on disk.
template <class State>
void save_state(FileSystem& files, const std::filesystem::path& path, const StateFormat<State>& format,
                Words words, const State& state) {
    const std::filesystem::path folder = path.parent_path();
    make_lasting_folder(files, folder);
    words["format"] = format.name;
    for (const auto& [name, count] : format.counts)
        words[name] = std::to_string(state.*count);
    words["checksum"] = checksum(format, words, state);
    SafetensorsWriter writer(path, words, files);
    for (const auto& [name, part] : format.parts)
        writer.declare(name, DataType::f32, {(state.*part).size()});
    for (const auto& [name, part] : format.parts)
        writer.write_f32(name, state.*part);
    writer.finish();
    require_none(files.sync_folder(folder), folder, "could not be made to last");
}

/// Throws Error if the file's words differ, or if it has changed since it was saved.
template <class State>
[[nodiscard]] State load_state(const FileSystem& files, const std::filesystem::path& path,
                               const StateFormat<State>& format, const Words& words) {
    const SafetensorsFile file(path, files);
    const auto wrong = [&path](const std::string& what) {
        return Error(path.string() + ": " + one_line(what) + "; use another checkpoint");
    };
    const auto of = [&](const std::string& key) {
        const auto found = file.metadata().find(key);
        if (found == file.metadata().end())
            throw wrong("it has no " + key);
        return found->second;
    };
    if (of("format") != format.name)
        throw wrong("it is not a " + format.name);
    for (const auto& [key, word] : words)
        if (of(key) != word)
            throw wrong(key == "settings" ? "its run had other settings: " + difference(of(key), word)
                                          : "it was " + of(key));
    State state;
    bool whole = true;
    for (const auto& [name, count] : format.counts) {
        state.*count = parse_number<std::int64_t>(of(name)).value_or(-1);
        whole = whole && state.*count >= 0;
    }
    for (const auto& [name, part] : format.parts)
        state.*part = file.read_f32(name);
    if (!whole || checksum(format, file.metadata(), state) != of("checksum"))
        throw wrong("it is damaged: its checksum is not its content's");
    return state;
}

} // namespace truestep::storage
