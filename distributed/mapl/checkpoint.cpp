// Saves and loads the state of one side of a MAPL boundary.
#include <truestep/distributed/mapl/checkpoint.hpp>

#include <set>
#include <string>

#include <truestep/problem/value_text.hpp>
#include <truestep/storage/checkpoint.hpp>

namespace truestep::distributed::mapl {

namespace {

namespace fs = std::filesystem;
using storage::FileSystem;

const storage::StateFormat<EndState> checkpoint_format{
    "mapl-checkpoint-1",
    0x3c6e'f372'fe94'f82bU,
    {{"steps", &EndState::steps}, {"micro_batches", &EndState::micro_batches}},
    {{"A", &EndState::a},
     {"m", &EndState::m},
     {"E", &EndState::anchor},
     {"P", &EndState::rows},
     {"C", &EndState::codebooks},
     {"L", &EndState::learned}}};

std::string file_name(Side side, int boundary) {
    return "boundary-" + std::to_string(boundary) + (side == Side::sender ? "-sender" : "-receiver") +
           ".safetensors";
}

std::string settings_text(const Settings& settings) {
    std::string text;
    visit_settings(settings, [&](const std::string& what, const auto& value, const auto&...) {
        text += (text.empty() ? "" : ", ") + what + " " + value_text(value);
    });
    // Checkpoints from before codewords, too, end here where there are none.
    return settings.quantization.codewords > 0 ? text : text.substr(0, text.find(", groups "));
}

storage::Words words_of(const Settings& settings, Side side, int boundary) {
    return {{"settings", settings_text(settings)}, {"file", file_name(side, boundary)}};
}

} // namespace

fs::path save(const fs::path& folder, const Settings& settings, const EndState& state, Side side,
              int boundary, FileSystem& files) {
    fs::path checkpoint = folder / storage::numbered_name("step", state.steps);
    storage::save_state(files, checkpoint / file_name(side, boundary), checkpoint_format,
                        words_of(settings, side, boundary), state);
    return checkpoint;
}

std::optional<fs::path> latest(const fs::path& folder, int boundaries, const FileSystem& files) {
    return storage::latest_numbered(files, folder, "step", [&](const fs::path& checkpoint) {
        const std::set<std::string> there = storage::names_in(files, checkpoint);
        for (int boundary = 0; boundary < boundaries; ++boundary)
            for (const Side side : {Side::sender, Side::receiver})
                if (!there.contains(file_name(side, boundary)))
                    return false;
        return true;
    });
}

EndState load(const fs::path& checkpoint, const Settings& settings, Side side, int boundary,
              const FileSystem& files) {
    return storage::load_state(files, checkpoint / file_name(side, boundary), checkpoint_format,
                               words_of(settings, side, boundary));
}

} // namespace truestep::distributed::mapl
