// Saves a rank's part of a dense training, and restores it on any number of ranks.
#include <truestep/distributed/dense/checkpoint.hpp>

#include <string>
#include <vector>

#include <truestep/problem/error.hpp>
#include <truestep/storage/checkpoint.hpp>

#include <truestep/distributed/dense/agreement.hpp>

namespace truestep::distributed::dense {

namespace {

namespace fs = std::filesystem;
using storage::FileSystem;

const storage::StateFormat<State> format{"dense-checkpoint-1",
                                         0xd3a5'e1c7'0b92'6f41U,
                                         {{"steps", &State::steps}, {"run", &State::run}},
                                         {{"w", &State::w}, {"m", &State::m}, {"v", &State::v}}};

fs::path file_of(const fs::path& checkpoint, int rank, int ranks) {
    return checkpoint / storage::name_of_part("rank", rank, ranks);
}

storage::Words settings_of(const Problem& problem) {
    std::string text;
    for (const auto& [what, value] : words_of(problem))
        text += (text.empty() ? "" : ", ") + what + " " + value;
    return {{"settings", text}};
}

} // namespace

fs::path save(const fs::path& folder, const Problem& problem, const Options& options, const State& state,
              int rank, FileSystem& files) {
    fs::path checkpoint = folder / storage::numbered_name("step", state.steps);
    storage::Words words = settings_of(problem);
    words["sharded"] = options.sharded ? "true" : "false";
    storage::save_state(files, file_of(checkpoint, rank, problem.ranks), format, words, state);
    return checkpoint;
}

std::optional<fs::path> latest(const fs::path& folder, const FileSystem& files) {
    return storage::latest_numbered(files, folder, "step", [&](const fs::path& checkpoint) {
        return !storage::complete_parts(files, checkpoint, "rank").empty();
    });
}

State load(const fs::path& checkpoint, const Problem& problem, const Options& options, int rank,
           const FileSystem& files) {
    Problem before = problem;
    before.ranks = storage::ranks_of(files, checkpoint, "rank", "step");
    before.micro_batches.assign(static_cast<std::size_t>(before.ranks), 1);
    const auto words_of_file = [&](int of) {
        storage::Words words =
            storage::SafetensorsFile(file_of(checkpoint, of, before.ranks), files).metadata();
        words.erase("checksum");
        return words;
    };
    const storage::Words first = words_of_file(0);
    const bool sharded = !first.contains("sharded") || first.at("sharded") == "true";
    const Ownership from(before, sharded);
    const Ownership to(problem, options.sharded);
    const auto size = static_cast<std::size_t>(layout_of(problem).size());
    const std::vector<float> nothing(size);
    State whole{0, 0, nothing, nothing, nothing};
    for (int other = 0; other < before.ranks; ++other) {
        const fs::path path = file_of(checkpoint, other, before.ranks);
        const Error strange(path.string() +
                            ": it is of another run or step than rank 0's; use another checkpoint");
        const bool has_part = sharded || other == 0; // else it has what rank 0's has
        const State part =
            has_part ? storage::load_state(files, path, format, settings_of(problem)) : State();
        if (words_of_file(other) != first)
            throw strange;
        if (!has_part)
            continue;
        const State expected = first_state(before, from, other, nothing);
        whole.steps = part.steps;
        for (const auto& [name, values] : format.parts) {
            if ((part.*values).size() != (expected.*values).size())
                throw strange;
            if (!(part.*values).empty())
                from.unpack(other, (part.*values).data(), (whole.*values).data());
        }
    }
    State state = first_state(problem, to, rank, nothing);
    state.steps = whole.steps;
    for (const auto& [name, values] : format.parts)
        if (!(state.*values).empty())
            to.pack(rank, (whole.*values).data(), (state.*values).data());
    return state;
}

} // namespace truestep::distributed::dense
