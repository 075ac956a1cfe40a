// Saves a rank's part of a dense training, and restores it on any number of ranks.
#include <truestep/distributed/dense/checkpoint.hpp>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <truestep/problem/error.hpp>
#include <truestep/problem/partition.hpp>
#include <truestep/storage/checkpoint.hpp>

#include <truestep/distributed/dense/agreement.hpp>

namespace truestep::distributed::dense {

namespace {

namespace fs = std::filesystem;
using storage::FileSystem;

constexpr std::string_view suffix = ".safetensors";

const storage::StateFormat<State> format{"dense-checkpoint-1",
                                         0xd3a5'e1c7'0b92'6f41U,
                                         {{"steps", &State::steps}},
                                         {{"w", &State::w}, {"m", &State::m}, {"v", &State::v}}};

std::string file_of(int rank, int ranks) {
    return "rank-" + std::to_string(rank) + "-of-" + std::to_string(ranks) + std::string(suffix);
}

storage::Words settings_of(const Problem& problem) {
    std::string text;
    for (const auto& [what, value] : words_of(problem))
        text += (text.empty() ? "" : ", ") + what + " " + value;
    return {{"settings", text}};
}

/// How many ranks saved a complete checkpoint; 0: it is not complete.
int complete(const FileSystem& files, const fs::path& checkpoint) {
    const std::set<std::string> there = storage::names_in(files, checkpoint);
    for (const std::string& name : there) {
        const std::size_t of = name.rfind("-of-");
        if (of == std::string::npos || !name.ends_with(suffix))
            continue;
        const int ranks =
            parse_number<int>(std::string_view(name).substr(of + 4, name.size() - of - 4 - suffix.size()))
                .value_or(-1);
        if (ranks < 1 || ranks > problem::most_workers)
            continue;
        int rank = 0;
        while (rank < ranks && there.contains(file_of(rank, ranks)))
            ++rank;
        if (rank == ranks)
            return ranks;
    }
    return 0;
}

} // namespace

fs::path save(const fs::path& folder, const Problem& problem, const Options& options, const State& state,
              int rank, FileSystem& files) {
    fs::path checkpoint = folder / storage::numbered_name("step", state.steps);
    storage::Words words = settings_of(problem);
    words["sharded"] = options.sharded ? "true" : "false";
    storage::save_state(files, checkpoint / file_of(rank, problem.ranks), format, words, state);
    return checkpoint;
}

std::optional<fs::path> latest(const fs::path& folder, const FileSystem& files) {
    return storage::latest_numbered(
        files, folder, "step", [&](const fs::path& checkpoint) { return complete(files, checkpoint) > 0; });
}

State load(const fs::path& checkpoint, const Problem& problem, const Options& options, int rank,
           const FileSystem& files) {
    if (files.kind(checkpoint) != storage::FileKind::folder)
        throw Error(checkpoint.string() + ": there is no such checkpoint; give the folder of a step");
    Problem before = problem;
    before.ranks = complete(files, checkpoint);
    if (before.ranks == 0)
        throw Error(checkpoint.string() +
                    ": not all ranks' files are there; use the checkpoint of an earlier step");
    before.micro_batches.assign(static_cast<std::size_t>(before.ranks), 1);
    const storage::SafetensorsFile first(checkpoint / file_of(0, before.ranks), files);
    const auto said = first.metadata().find("sharded");
    const bool sharded = said == first.metadata().end() || said->second == "true";
    const Ownership from(before, sharded);
    const Ownership to(problem, options.sharded);
    const auto size = static_cast<std::size_t>(layout_of(problem).size());
    const std::vector<float> nothing(size);
    State whole{0, nothing, nothing, nothing};
    for (int other = 0; other < (sharded ? before.ranks : 1); ++other) {
        const fs::path path = checkpoint / file_of(other, before.ranks);
        const State part = storage::load_state(files, path, format, settings_of(problem));
        const State expected = first_state(before, from, other, nothing);
        if (other == 0)
            whole.steps = part.steps;
        for (const auto& [name, values] : format.parts) {
            if ((part.*values).size() != (expected.*values).size() || part.steps != whole.steps)
                throw Error(path.string() + ": it is not of the same run and step as rank 0's; use another "
                                            "checkpoint");
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
