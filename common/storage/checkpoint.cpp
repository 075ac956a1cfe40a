// Names numbered checkpoint folders, and finds the latest complete one.
#include <truestep/storage/checkpoint.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <system_error>

namespace truestep::storage {

namespace fs = std::filesystem;

std::string numbered_name(std::string_view what, std::int64_t number) {
    std::array<char, 48> text{};
    std::snprintf(text.data(), text.size(), "-%010lld", static_cast<long long>(number));
    return std::string(what) + text.data();
}

std::optional<std::int64_t> number_in(std::string_view what, const std::string& name) {
    const auto number =
        parse_number<std::int64_t>(std::string_view(name).substr(std::min(what.size() + 1, name.size())));
    return number && *number >= 0 && name == numbered_name(what, *number) ? number : std::nullopt;
}

std::set<std::string> names_in(const FileSystem& files, const fs::path& folder) {
    std::error_code error;
    const std::vector<std::string> names = files.list(folder, error);
    require_none(error, folder, "it cannot be read");
    return {names.begin(), names.end()};
}

std::string difference(const std::string& there, const std::string& here) {
    std::string_view theirs = there;
    std::string_view ours = here;
    const auto next = [](std::string_view& all) {
        constexpr std::string_view comma = ", ";
        const std::string_view item = all.substr(0, all.find(comma));
        all.remove_prefix(std::min(all.size(), item.size() + comma.size()));
        return item.empty() ? "nothing more" : item;
    };
    std::string_view their = next(theirs);
    std::string_view our = next(ours);
    while (their == our && !(theirs.empty() && ours.empty())) {
        their = next(theirs);
        our = next(ours);
    }
    return std::string(their) + " where this run has " + std::string(our);
}

std::string name_of_part(std::string_view what, int rank, int ranks) {
    return std::string(what) + "-" + std::to_string(rank) + "-of-" + std::to_string(ranks) + ".safetensors";
}

std::vector<int> complete_parts(const FileSystem& files, const fs::path& folder, std::string_view what) {
    const std::set<std::string> there = names_in(files, folder);
    const std::string first = std::string(what) + "-0-of-";
    std::vector<int> all;
    for (const std::string& name : there) {
        if (!name.starts_with(first))
            continue;
        const std::string_view rest = std::string_view(name).substr(first.size());
        const int ranks = parse_number<int>(rest.substr(0, rest.find('.'))).value_or(0);
        if (name != name_of_part(what, 0, ranks))
            continue; // what a crash has left
        int rank = 0;
        while (rank < ranks && there.contains(name_of_part(what, rank, ranks)))
            ++rank;
        if (rank == ranks && ranks > 0)
            all.push_back(ranks);
    }
    std::ranges::sort(all);
    return all;
}

int ranks_of(const FileSystem& files, const fs::path& checkpoint, std::string_view what,
             const std::string& unit) {
    const std::string path = checkpoint.string();
    if (files.kind(checkpoint) != FileKind::folder)
        throw Error(path + ": there is no such checkpoint; give the folder of a " + unit);
    const std::vector<int> complete = complete_parts(files, checkpoint, what);
    const std::string ranks = std::string(what) + "s";
    if (complete.empty())
        throw Error(path + ": not all " + ranks + "' files are there; use the checkpoint of an earlier " +
                    unit);
    if (complete.size() > 1)
        throw Error(path + ": runs of " + std::to_string(complete[0]) + " and of " +
                    std::to_string(complete[1]) + " " + ranks +
                    " have saved to it; remove the files of one");
    return complete.front();
}

std::optional<fs::path> latest_numbered(const FileSystem& files, const fs::path& folder,
                                        std::string_view what,
                                        const std::function<bool(const fs::path&)>& complete) {
    const fs::path place = folder.empty() ? "." : folder;
    if (files.kind(place) == FileKind::none)
        return std::nullopt;
    std::optional<std::int64_t> latest;
    for (const std::string& name : names_in(files, place))
        if (const auto number = number_in(what, name);
            number > latest && files.kind(folder / name) == FileKind::folder && complete(folder / name))
            latest = number;
    return latest ? std::optional(folder / numbered_name(what, *latest)) : std::nullopt;
}

} // namespace truestep::storage
