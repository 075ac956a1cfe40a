// Saves and loads GASLoC's checkpoints; another number of workers gets the mean of the states.
#include <truestep/distributed/gasloc/checkpoint.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/storage/checkpoint.hpp>

namespace truestep::distributed::gasloc {

namespace {

namespace fs = std::filesystem;
using storage::FileSystem;

const storage::StateFormat<State> format{
    "gasloc-checkpoint-1",
    0x9ae1'6a3b'2f90'404fU,
    {{"round", &State::rounds}, {"s", &State::s}},
    {{"theta", &State::theta}, {"before", &State::before}, {"m", &State::m}, {"v", &State::v}}};

constexpr std::string_view prefix = "worker";

/// The settings that must not change during a run. alpha, gamma and eta may follow the user's own
/// schedule.
storage::Words words_of(const Settings& settings) {
    std::string text = "inner " + std::string(name(settings.inner)) + ", momentum " +
                       std::string(name(settings.momentum)) + ", law " + std::string(name(settings.law)) +
                       ", seed " + std::to_string(settings.seed);
    for (const auto& [what, value] : {std::pair{"beta1", settings.hyper.beta1},
                                      {"beta2", settings.hyper.beta2},
                                      {"epsilon", settings.hyper.epsilon}})
        text += std::string(", ") + what + " " + shortest(value);
    return {{"settings", text + ", bias_correction " + std::string(name(settings.hyper.bias_correction))}};
}

State read(const FileSystem& files, const fs::path& path, const Settings& settings) {
    return storage::load_state(files, path, format, words_of(settings));
}

void add(State& sum, const State& other, const fs::path& path) {
    for (const auto& [name, values] : format.parts) {
        std::vector<float>& into = sum.*values;
        const std::vector<float>& from = other.*values;
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
    for (const auto& [name, values] : format.parts)
        if (!std::ranges::all_of(state.*values, [](float value) { return std::isfinite(value); }))
            throw Error(name + " of round " + std::to_string(state.rounds) +
                        " is not finite, and no run could begin with it; use the checkpoint of an earlier "
                        "round");
    fs::path checkpoint = folder / storage::numbered_name("round", state.rounds);
    storage::save_state(files, checkpoint / storage::name_of_part(prefix, rank, workers), format,
                        words_of(settings), state);
    return checkpoint;
}

std::optional<fs::path> latest(const fs::path& folder, const FileSystem& files) {
    return storage::latest_numbered(files, folder, "round", [&](const fs::path& checkpoint) {
        return !storage::complete_parts(files, checkpoint, prefix).empty();
    });
}

State load(const fs::path& checkpoint, const Settings& settings, int rank, int workers,
           const FileSystem& files) {
    const int made_by = storage::ranks_of(files, checkpoint, prefix, "round");
    if (made_by == workers)
        return read(files, checkpoint / storage::name_of_part(prefix, rank, workers), settings);
    State state = read(files, checkpoint / storage::name_of_part(prefix, 0, made_by), settings);
    for (int other = 1; other < made_by; ++other) {
        const fs::path path = checkpoint / storage::name_of_part(prefix, other, made_by);
        add(state, read(files, path, settings), path);
    }
    const auto count = static_cast<float>(static_cast<double>(made_by));
    for (const auto& [name, values] : format.parts)
        for (float& value : state.*values)
            value = value / count;
    return state;
}

} // namespace truestep::distributed::gasloc
