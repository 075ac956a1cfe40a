// Judges links, and folders of checkpoints.
#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include <truestep/storage/checkpoint.hpp>

#include <wrapped_files.hpp>

#include "trial.hpp"

namespace truestep::properties::storage {

namespace {

namespace fs = std::filesystem;

std::set<std::string> names_below(const Path& folder) {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
        if (!entry.is_directory() || entry.is_symlink())
            names.insert(fs::relative(entry.path().parent_path(), folder) / entry.path().filename());
    return names;
}

} // namespace

void keeps_links(Trial& trial) {
    const Case& run = trial.run;
    const Path folder = trial.implementation.folder();
    const auto place = [&](std::uint64_t link) {
        return "folder" + std::to_string(run.random(For::links, {link}) % 3) + "/" +
               (link == 0 ? "target" : "link" + std::to_string(link));
    };
    for (const char* const name : {"folder0", "folder1", "folder2", "kept"})
        fs::create_directory(folder / name);
    std::set<std::string> expected{place(0)};
    const auto links = static_cast<std::uint64_t>(run.links);
    for (std::uint64_t link = 1; link <= links; ++link) {
        const bool absolute = run.random(For::links, {link, 1}) % 2 == 0;
        fs::create_symlink(absolute ? folder / place(link - 1) : Path("..") / place(link - 1),
                           folder / place(link));
        expected.insert(place(link));
    }
    const Content content = content_of(run);
    if (run.random(For::links) % 2 == 0)
        put(folder / place(0), "an older file");
    std::set<std::string> partial; // while the file is being written
    truestep::storage::WatchedFiles watched(
        truestep::storage::disk(), [&](truestep::storage::OutputFile* file, std::span<const std::byte>) {
            if (file != nullptr && partial.empty())
                std::ranges::copy_if(names_below(folder), std::inserter(partial, partial.end()),
                                     [](const std::string& name) { return name.ends_with(".partial"); });
            return std::error_code();
        });
    const auto files = trial.implementation.over(watched, run);
    save(*files, folder / place(links), content);
    trial.holds(partial == std::set{place(0) + ".partial"},
                "the partial file is not beside the file at the links' end");
    trial.holds(names_below(folder) == expected, "a save through links leaves other names");
    for (std::uint64_t link = 0; link <= links; ++link)
        trial.holds(fs::is_symlink(folder / place(link)) == (link > 0),
                    place(link) + " is not what it was");
    const Path plain = folder / "plain";
    save(*files, plain, content);
    trial.holds(bytes_in(folder / place(0)) == bytes_in(plain),
                "what is saved through links is not what is saved without");

    // A folder is removed with its links, and not with what they lead to.
    fs::create_directories(folder / "removed/below");
    put(folder / "removed/below/file", "goes");
    put(folder / "kept/file", "stays");
    fs::create_directory_symlink(folder / "kept", folder / "removed/folder");
    fs::create_symlink(folder / "kept/file", folder / "removed/below/link");
    fs::create_symlink("nowhere", folder / "removed/dangling");
    trial.holds(!remove_all(*files, folder / "removed") && !fs::exists(folder / "removed"),
                "a folder with links is not removed");
    trial.holds(bytes_in(folder / "kept/file") == "stays", "what a removed link led to is gone");
    trial.holds(!remove_all(*files, folder / "removed"), "the removal of nothing fails");
    make_lasting_folder(*files, folder / "new/below");
    trial.holds(fs::is_directory(folder / "new/below"), "a folder is not made");
    trial.refused(plain, "not a folder", "a folder in place of a file",
                  [&] { make_lasting_folder(*files, plain); });
    fs::remove_all(folder);
}

void finds_checkpoints(Trial& trial) {
    const Case& run = trial.run;
    const auto drawn = [&](std::uint64_t what, std::uint64_t more = 0) {
        return run.random(For::folders, {what, more});
    };
    const Path folder = trial.implementation.folder();
    const auto files = trial.implementation.over(truestep::storage::disk(), run);
    const auto workers = static_cast<int>(run.workers);
    std::optional<Path> latest;
    constexpr std::array<std::int64_t, 6> numbers{0, 1, 9, 10, 123'456'789, 9'999'999'999};
    for (std::size_t at = 0; at < numbers.size(); ++at) {
        const std::string digits = std::to_string(numbers[at]);
        const Path step = folder / ("step-" + std::string(10 - digits.size(), '0') + digits);
        const std::uint64_t kind = drawn(at) % 6;
        if (kind == 0)
            continue;
        if (kind == 1) {
            put(step, "no folder");
            continue;
        }
        fs::create_directory(step);
        std::vector<int> complete;
        for (const int ranks : std::set{workers, workers + 1, 1}) {
            const auto count = static_cast<std::uint64_t>(ranks);
            if (ranks != workers && drawn(at, count) % 4 > 0) // most checkpoints are of one run
                continue;
            const std::uint64_t lacks = drawn(at, 100 + count) % (2 * count);
            for (std::uint64_t rank = 0; rank < count; ++rank)
                put(step / ("rank-" + std::to_string(rank) + "-of-" + std::to_string(ranks) +
                            ".safetensors" + (rank == lacks ? ".partial" : "")),
                    "");
            if (lacks >= count)
                complete.push_back(ranks);
        }
        for (const char* const junk :
             {"rank-0-of-0.safetensors", "rank-0-of-01.safetensors", "rank-0-of-.safetensors", "other"})
            put(step / junk, "");
        const auto found = complete_parts(*files, step, "rank");
        trial.holds(found == complete, "of " + step.filename().string() + " other runs are complete");
        if (complete.size() == 1)
            trial.holds(ranks_of(*files, step, "rank", "step") == complete.front(),
                        "another number of ranks has saved");
        else
            trial.refused(step,
                          complete.empty() ? "not all ranks' files"
                                           : "runs of " + std::to_string(complete[0]) + " and of " +
                                                 std::to_string(complete[1]),
                          "a question for its ranks",
                          [&] { static_cast<void>(ranks_of(*files, step, "rank", "step")); });
        if (!complete.empty())
            latest = step;
    }
    for (const char* const junk : {"step-5", "step-00000000012", "step-000000001x", "step--000000001",
                                   "step-0000000003.partial", "other-0000000099"}) {
        fs::create_directory(folder / junk);
        put(folder / junk / "rank-0-of-1.safetensors", "");
    }
    const auto complete = [&](const Path& step) { return !complete_parts(*files, step, "rank").empty(); };
    trial.holds(latest_numbered(*files, folder, "step", complete) == latest,
                "another checkpoint is the latest");
    trial.holds(!latest_numbered(*files, folder / "missing", "step", complete),
                "a folder that is not there has a checkpoint");
    trial.refused(folder / "missing", "no such checkpoint", "a question for the ranks of nothing",
                  [&] { static_cast<void>(ranks_of(*files, folder / "missing", "rank", "step")); });
    fs::remove_all(folder);
}

} // namespace truestep::properties::storage
