#include <truestep/mapl/checkpoint.hpp>

#include <array>
#include <bit>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/mix64.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/storage/safetensors.hpp>

namespace truestep::mapl {

namespace {

namespace fs = std::filesystem;
using storage::FileKind;
using storage::FileSystem;
using storage::make_lasting_folder;
using storage::require_none;
using Metadata = std::map<std::string, std::string>;

constexpr std::string_view checkpoint_format = "mapl-checkpoint-1";

/// The parts of a state, by the names of their tensors.
constexpr std::array<std::pair<const char*, Floats EndState::*>, 6> parts{{{"A", &EndState::a},
                                                                           {"m", &EndState::m},
                                                                           {"E", &EndState::anchor},
                                                                           {"P", &EndState::rows},
                                                                           {"C", &EndState::codebooks},
                                                                           {"L", &EndState::learned}}};

std::string step_folder(Index step) {
    std::array<char, 48> text{};
    std::snprintf(text.data(), text.size(), "step-%010lld", static_cast<long long>(step));
    return text.data();
}

std::string file_name(Side side, int boundary) {
    return "boundary-" + std::to_string(boundary) + (side == Side::sender ? "-sender" : "-receiver") +
           ".safetensors";
}

std::string settings_text(const Settings& settings) {
    const Quantization& of = settings.quantization;
    std::string text;
    const auto add = [&text](const char* what, const std::string& value) {
        text += (text.empty() ? "" : ", ") + std::string(what) + " " + value;
    };
    add("width", std::to_string(settings.width));
    add("rank", std::to_string(settings.rank));
    add("vocabulary", std::to_string(settings.vocabulary));
    add("anchors", std::string(name(settings.anchors)));
    add("order", std::string(name(settings.order)));
    add("beta", shortest(settings.beta));
    add("direction_iterations", std::to_string(settings.direction_iterations));
    add("retraction_iterations", std::to_string(settings.retraction_iterations));
    add("seed", std::to_string(settings.seed));
    add("payload", std::string(name(settings.payload)));
    add("codewords", std::to_string(of.codewords));
    if (of.codewords > 0) {
        add("groups", std::to_string(of.groups));
        add("rounds", std::to_string(of.rounds));
        add("subsets", std::to_string(of.subsets));
        add("decay", shortest(of.decay));
    }
    return text;
}

/// In which a change of any one byte shows, of the metadata and of every value.
std::string checksum(const Metadata& metadata, const EndState& state) {
    std::uint64_t sum = 0x3c6e'f372'fe94'f82bU;
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

std::set<std::string> names_in(const FileSystem& files, const fs::path& folder) {
    std::error_code error;
    const std::vector<std::string> names = files.list(folder, error);
    require_none(error, folder, "it cannot be read");
    return {names.begin(), names.end()};
}

} // namespace

fs::path save(const fs::path& folder, const Settings& settings, const EndState& state, Side side,
              int boundary, FileSystem& files) {
    fs::path checkpoint = folder / step_folder(state.steps);
    make_lasting_folder(files, checkpoint);
    Metadata metadata{{"format", std::string(checkpoint_format)},
                      {"settings", settings_text(settings)},
                      {"file", file_name(side, boundary)},
                      {"steps", std::to_string(state.steps)},
                      {"micro_batches", std::to_string(state.micro_batches)}};
    metadata["checksum"] = checksum(metadata, state);
    storage::SafetensorsWriter writer(checkpoint / file_name(side, boundary), metadata, files);
    for (const auto& [name, part] : parts)
        writer.declare(name, storage::DataType::f32, {(state.*part).size()});
    for (const auto& [name, part] : parts)
        writer.write_f32(name, state.*part);
    writer.finish();
    require_none(files.sync_folder(checkpoint), checkpoint, "could not be made to last");
    return checkpoint;
}

std::optional<fs::path> latest(const fs::path& folder, int boundaries, const FileSystem& files) {
    if (files.kind(folder) == FileKind::none)
        return std::nullopt;
    const auto complete = [&](const fs::path& checkpoint) {
        if (files.kind(checkpoint) != FileKind::folder)
            return false;
        const std::set<std::string> there = names_in(files, checkpoint);
        for (int boundary = 0; boundary < boundaries; ++boundary)
            for (const Side side : {Side::sender, Side::receiver})
                if (!there.contains(file_name(side, boundary)))
                    return false;
        return true;
    };
    Index greatest = -1;
    for (const std::string& name : names_in(files, folder)) {
        const Index step = name.starts_with("step-")
                               ? parse_number<Index>(std::string_view(name).substr(5)).value_or(-1)
                               : Index{-1};
        if (step > greatest && name == step_folder(step) && complete(folder / name))
            greatest = step;
    }
    return greatest < 0 ? std::nullopt : std::optional(folder / step_folder(greatest));
}

EndState load(const fs::path& checkpoint, const Settings& settings, Side side, int boundary,
              const FileSystem& files) {
    const fs::path path = checkpoint / file_name(side, boundary);
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
    if (of("format") != checkpoint_format)
        throw wrong("it is no " + std::string(checkpoint_format));
    if (of("settings") != settings_text(settings))
        throw wrong("it is of " + of("settings") + ", and this run is of " + settings_text(settings));
    if (of("file") != file_name(side, boundary))
        throw wrong("it was " + of("file"));
    EndState state;
    state.steps = parse_number<Index>(of("steps")).value_or(-1);
    state.micro_batches = parse_number<Index>(of("micro_batches")).value_or(-1);
    for (const auto& [name, part] : parts)
        state.*part = file.read_f32(name);
    if (state.steps < 0 || state.micro_batches < 0 || checksum(file.metadata(), state) != of("checksum"))
        throw wrong("it is damaged: its checksum is not its content's");
    return state;
}

} // namespace truestep::mapl
