// Finds the files of one run by their ranks' numbers, and names the ranks that lack one.
#include <truestep/trace/ranks.hpp>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <map>

#include <truestep/problem/partition.hpp>
#include <truestep/trace/config.hpp>

#include "metadata.hpp"

namespace truestep::trace {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view star = "rank*";

/// A file and its run. Without `rank` the file holds all ranks.
struct GivenFile {
    fs::path run;
    std::optional<RankFile> of;
};

/// The file's name with a star for its rank's number. The name must hold it, because the ranks'
/// files are found by it.
fs::path starred(const fs::path& path, int rank) {
    std::string name = path.filename().string();
    const std::string wanted = "rank" + std::to_string(rank);
    std::size_t at = name.rfind(wanted);
    // rank1 is not part of rank10.
    while (at != std::string::npos && at + wanted.size() < name.size() &&
           std::isdigit(static_cast<unsigned char>(name[at + wanted.size()])) != 0)
        at = at == 0 ? std::string::npos : name.rfind(wanted, at - 1);
    if (at == std::string::npos)
        throw Error(path.string() + ": its config says that it is of rank " + std::to_string(rank) +
                    ", and its name does not; name the files run.rank0.safetensors and so on");
    return path.parent_path() / name.replace(at, wanted.size(), star);
}

GivenFile given(const fs::path& path) {
    const storage::SafetensorsFile file(path);
    const auto of = rank_in(config_of(file), begin_of_config_errors(file));
    return {of ? starred(path, of->rank) : path, of};
}

} // namespace

std::optional<RankFile> rank_in(const std::string& config, const std::string& what) {
    const nlohmann::json object = parse_json(config, what);
    if (!object.is_object() || !object.contains("rank"))
        return std::nullopt;
    ObjectReader reader(object, what);
    const problem::Index rank = reader.integer("rank");
    const problem::Index workers = reader.integer("workers");
    problem::check_workers(workers);
    if (rank < 0 || rank >= workers)
        throw Error(what + ": rank is " + std::to_string(rank) + "; there are ranks 0 to " +
                    std::to_string(workers - 1));
    return RankFile{static_cast<int>(rank), static_cast<int>(workers)};
}

// The order of the keys is kept, because a reader reports the first that is wrong.
std::string with_rank(const std::string& config, int rank) {
    auto object = nlohmann::ordered_json::parse(config);
    object["rank"] = rank;
    return object.dump();
}

std::string without_rank(const std::string& config) {
    auto object = nlohmann::ordered_json::parse(config);
    object.erase("rank");
    return object.dump();
}

bool names_ranks(const fs::path& path) {
    std::error_code ignored;
    return path.filename().string().find(star) != std::string::npos && !fs::exists(path, ignored);
}

fs::path file_of_rank(const fs::path& run, int rank) {
    std::string name = run.filename().string();
    const std::size_t at = name.rfind(star);
    return run.parent_path() / name.replace(at, star.size(), "rank" + std::to_string(rank));
}

std::vector<std::vector<fs::path>> by_run(const std::vector<fs::path>& files) {
    std::vector<std::vector<fs::path>> runs;
    std::map<fs::path, std::size_t> known;
    for (const fs::path& file : files) {
        std::optional<fs::path> run;
        try {
            if (const GivenFile found = given(file); found.of)
                run = found.run;
        } catch (const Error&) {
            // Reading the file will report the error.
        }
        if (!run) {
            runs.push_back({file});
            continue;
        }
        const auto [at, is_new] = known.emplace(*run, runs.size());
        if (is_new)
            runs.emplace_back();
        runs[at->second].push_back(file);
    }
    return runs;
}

fs::path run_of(const std::vector<fs::path>& files) {
    if (files.empty())
        throw Error("no trace is given; give one, or the files of all ranks");
    if (files.size() == 1 && names_ranks(files.front()))
        return files.front();
    const GivenFile first = given(files.front());
    if (!first.of && files.size() == 1)
        return files.front();
    std::vector<bool> there;
    for (const fs::path& path : files) {
        const GivenFile next = given(path);
        if (!next.of)
            throw Error(path.string() + ": it holds a whole run, but more files were given; give one run: "
                                        "a file, or those of all its ranks");
        if (next.run != first.run)
            throw Error(path.string() + " and " + files.front().string() +
                        " are of two runs; the files of one have the same name but for the rank's number");
        const auto rank = static_cast<std::size_t>(next.of->rank);
        there.resize(std::max(there.size(), static_cast<std::size_t>(next.of->workers)));
        if (there[rank])
            throw Error(path.string() + ": rank " + std::to_string(rank) +
                        " is given twice; give each rank's file once");
        there[rank] = true;
    }
    if (!std::ranges::all_of(there, [](bool is) { return is; }))
        throw Error(first.run.string() + ": " + missing_ranks(there) + "; give every rank's file");
    return first.run;
}

std::string missing_ranks(const std::vector<bool>& there) {
    constexpr std::size_t named = 8;
    std::string text;
    std::size_t count = 0;
    for (std::size_t rank = 0; rank < there.size(); ++rank)
        if (!there[rank] && ++count <= named)
            text += (text.empty() ? "" : ", ") + std::to_string(rank);
    if (count > named)
        text += " and " + std::to_string(count - named) + " more";
    return (count == 1 ? "rank " : "ranks ") + text + " of " + std::to_string(there.size()) +
           (count == 1 ? " is missing" : " are missing");
}

} // namespace truestep::trace
