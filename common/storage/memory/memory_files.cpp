// Models files in memory, and what may remain of them after a crash at any operation.
#include "memory_files.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <set>

namespace truestep::storage::memory {

namespace {

constexpr std::size_t sector = 512;
constexpr std::size_t few = 32;        // outcomes of one file or folder: all of them
constexpr std::size_t few_trees = 120; // and of all together

std::error_code code(std::errc error) {
    return std::make_error_code(error);
}

/// Every combination of numbers below the limits if there are few; else the corners and some drawn
/// ones.
std::vector<std::vector<std::size_t>> picks(const std::vector<std::size_t>& limits, std::size_t most,
                                            std::uint64_t seed) {
    std::size_t product = 1;
    for (const std::size_t limit : limits)
        product = std::min(product * limit, most + 1);
    std::vector<std::vector<std::size_t>> result;
    if (product <= most) {
        std::vector<std::size_t> pick(limits.size(), 0);
        for (std::size_t i = 0; i < product; ++i) {
            result.push_back(pick);
            for (std::size_t at = 0; at < pick.size() && ++pick[at] == limits[at]; ++at)
                pick[at] = 0;
        }
        return result;
    }
    std::vector<std::size_t> nothing(limits.size(), 0);
    std::vector<std::size_t> all;
    for (const std::size_t limit : limits)
        all.push_back(limit - 1);
    result = {nothing, all};
    for (std::size_t at = 0; at < limits.size(); ++at) {
        result.push_back(nothing);
        result.back()[at] = all[at];
        result.push_back(all);
        result.back()[at] = 0;
    }
    std::mt19937_64 random(seed);
    while (result.size() < most) {
        result.emplace_back();
        for (const std::size_t limit : limits)
            result.back().push_back(random() % limit);
    }
    return result;
}

} // namespace

std::string text(const Operation& operation) {
    using Kind = Operation::Kind;
    std::string who = "rank " + std::to_string(operation.rank) + ": ";
    switch (operation.kind) {
    case Kind::create:
        return who + "create " + operation.path;
    case Kind::write:
        return who + "write " + std::to_string(operation.bytes.size()) + " bytes to " + operation.path;
    case Kind::sync:
        return who + "sync " + operation.path;
    case Kind::make_folder:
        return who + "make folder " + operation.path;
    case Kind::rename:
        return who + "rename " + operation.path + " to " + operation.other;
    case Kind::exchange:
        return who + "exchange " + operation.path + " and " + operation.other;
    case Kind::remove:
        return who + "remove " + operation.path;
    case Kind::sync_folder:
        return who + "sync folder " + operation.path;
    case Kind::note:
        return who + operation.path;
    }
    return who;
}

State::State(const Tree& tree) {
    add(true);
    // A folder's path comes before those in it.
    for (const auto& [path, contents] : tree) {
        const auto place = find(path);
        if (!place)
            continue;
        const int node = add(!contents);
        if (contents)
            nodes_[static_cast<std::size_t>(node)].versions = {*contents};
        Node& folder = nodes_[static_cast<std::size_t>(place->folder)];
        folder.entries[place->name] = folder.lasting[place->name] = node;
    }
}

int State::add(bool folder) {
    nodes_.emplace_back();
    nodes_.back().folder = folder;
    return static_cast<int>(nodes_.size()) - 1;
}

std::optional<State::Place> State::find(const Path& path) const {
    std::vector<int> above;
    Place place{1, "", 1};
    for (const Path& part : path) {
        const std::string name = part.string();
        if (name == "/" || name.empty() || name == ".")
            continue;
        if (place.node == 0 || !nodes_[static_cast<std::size_t>(place.node)].folder)
            return std::nullopt;
        if (name == "..") {
            if (!above.empty()) {
                place = {place.folder, "", above.back()};
                above.pop_back();
            }
            continue;
        }
        const auto& entries = nodes_[static_cast<std::size_t>(place.node)].entries;
        const auto found = entries.find(name);
        above.push_back(place.node);
        place = {place.node, name, found == entries.end() ? 0 : found->second};
    }
    return place;
}

void State::make(std::map<std::string, int>& entries, const Change& change) {
    for (const auto& [name, node] : change.entries) {
        if (node == 0)
            entries.erase(name);
        else
            entries[name] = node;
    }
}

void State::change(int folder, Change change) {
    Node& node = nodes_[static_cast<std::size_t>(folder)];
    make(node.entries, change);
    node.changes.push_back(std::move(change));
}

std::error_code State::apply(const Operation& operation) {
    using Kind = Operation::Kind;
    const std::pair handle{operation.rank, operation.handle};
    if (operation.kind == Kind::note)
        return {};
    if (operation.kind == Kind::write) {
        auto& versions = nodes_[static_cast<std::size_t>(handles_.at(handle))].versions;
        versions.push_back(versions.back() + operation.bytes);
        return {};
    }
    if (operation.kind == Kind::sync) {
        auto& versions = nodes_[static_cast<std::size_t>(handles_.at(handle))].versions;
        versions = {versions.back()};
        return {};
    }
    const auto place = find(operation.path);
    if (!place)
        return code(std::errc::no_such_file_or_directory);
    const auto folder_at = [&](int node) { return nodes_[static_cast<std::size_t>(node)].folder; };
    switch (operation.kind) {
    case Kind::create:
        if (place->node != 0 && folder_at(place->node))
            return code(std::errc::is_a_directory);
        if (place->node != 0) {
            nodes_[static_cast<std::size_t>(place->node)].versions.emplace_back();
            handles_[handle] = place->node;
        } else {
            const int node = add(false);
            handles_[handle] = node;
            change(place->folder, {{{place->name, node}}});
        }
        return {};
    case Kind::make_folder:
        if (place->node != 0)
            return code(std::errc::file_exists);
        change(place->folder, {{{place->name, add(true)}}});
        return {};
    case Kind::remove:
        if (place->node == 0)
            return code(std::errc::no_such_file_or_directory);
        if (!nodes_[static_cast<std::size_t>(place->node)].entries.empty())
            return code(std::errc::directory_not_empty);
        change(place->folder, {{{place->name, 0}}});
        return {};
    case Kind::sync_folder: {
        if (place->node == 0)
            return code(std::errc::no_such_file_or_directory);
        if (!folder_at(place->node))
            return code(std::errc::not_a_directory);
        Node& node = nodes_[static_cast<std::size_t>(place->node)];
        node.lasting = node.entries;
        node.changes.clear();
        return {};
    }
    default:
        break;
    }
    const auto other = find(operation.other);
    if (!other || place->node == 0 || (operation.kind == Kind::exchange && other->node == 0))
        return code(std::errc::no_such_file_or_directory);
    if (other->folder != place->folder) // no caller renames across folders
        return code(std::errc::cross_device_link);
    if (operation.kind == Kind::exchange) {
        change(place->folder, {{{place->name, other->node}, {other->name, place->node}}});
        return {};
    }
    if (other->node != 0 && folder_at(other->node) &&
        !nodes_[static_cast<std::size_t>(other->node)].entries.empty())
        return code(std::errc::directory_not_empty);
    change(place->folder, {{{place->name, 0}, {other->name, place->node}}});
    return {};
}

FileKind State::kind(const Path& path) const {
    const auto place = find(path);
    if (!place || place->node == 0)
        return FileKind::none;
    return nodes_[static_cast<std::size_t>(place->node)].folder ? FileKind::folder : FileKind::file;
}

const std::string* State::contents(const Path& path) const {
    return kind(path) == FileKind::file
               ? &nodes_[static_cast<std::size_t>(find(path)->node)].versions.back()
               : nullptr;
}

std::optional<std::vector<std::string>> State::list(const Path& path) const {
    if (kind(path) != FileKind::folder)
        return std::nullopt;
    std::vector<std::string> names;
    for (const auto& [name, node] : nodes_[static_cast<std::size_t>(find(path)->node)].entries)
        names.push_back(name);
    return names;
}

namespace {

/// Collects everything under a folder; `entries` and `contents` give each node's contents.
template <class Entries, class Contents>
void collect(Tree& tree, const std::string& at, int node, const Entries& entries,
             const Contents& contents) {
    for (const auto& [name, child] : entries(node)) {
        const std::string path = at + "/" + name;
        tree[path] = contents(child);
        if (!tree[path])
            collect(tree, path, child, entries, contents);
    }
}

} // namespace

Tree State::seen() const {
    Tree tree;
    const auto at = [this](int node) -> const Node& { return nodes_[static_cast<std::size_t>(node)]; };
    collect(
        tree, "", 1, [&](int node) { return at(node).entries; },
        [&](int node) { return at(node).folder ? std::nullopt : std::optional(at(node).versions.back()); });
    return tree;
}

/// The first outcome is what is certain, the last what programs see.
std::vector<std::string> State::survivors(const Node& file, std::uint64_t seed) {
    const auto& versions = file.versions;
    if (versions.size() == 1)
        return versions;
    std::vector<std::string> result{versions.front()};
    const auto add = [&](const std::string& contents) {
        if (std::ranges::find(result, contents) == result.end())
            result.push_back(contents);
    };
    // Any size that the file has had, each sector from any time. A sector that was not yet written
    // then holds zeros, or what the disk had there before.
    std::set<std::size_t> sizes;
    for (const std::string& version : versions)
        sizes.insert(version.size());
    for (const std::size_t size : sizes) {
        const std::size_t sectors = (size + sector - 1) / sector;
        const std::vector<std::size_t> limits(sectors, versions.size() + 2);
        for (const auto& pick : picks(limits, few / 2, seed)) {
            std::string contents(size, '\0');
            for (std::size_t at = 0; at < sectors; ++at) {
                const std::size_t begin = at * sector;
                const std::size_t count = std::min(sector, size - begin);
                if (pick[at] == 1)
                    std::memset(contents.data() + begin, 0xa5, count);
                if (pick[at] < 2)
                    continue;
                const std::string& from = versions[pick[at] - 2];
                if (begin < from.size())
                    from.copy(contents.data() + begin, count, begin);
            }
            add(contents);
        }
    }
    std::erase(result, versions.back());
    result.push_back(versions.back());
    return result;
}

std::vector<std::map<std::string, int>> State::survivors_of_folder(const Node& folder, std::uint64_t seed) {
    std::vector<std::map<std::string, int>> result;
    for (const auto& pick : picks(std::vector<std::size_t>(folder.changes.size(), 2), few, seed)) {
        auto entries = folder.lasting;
        for (std::size_t at = 0; at < pick.size(); ++at)
            if (pick[at] == 1)
                make(entries, folder.changes[at]);
        if (std::ranges::find(result, entries) == result.end())
            result.push_back(entries);
    }
    // With few changes the visible state comes last; else it is the second corner.
    const auto seen = std::ranges::find(result, folder.entries);
    std::rotate(seen, seen + 1, result.end());
    return result;
}

std::vector<Tree> State::outcomes(std::uint64_t seed) const {
    std::vector<std::size_t> open; // nodes of which not all is certain
    std::vector<std::size_t> limits;
    std::map<int, std::vector<std::string>> contents;
    std::map<int, std::vector<std::map<std::string, int>>> entries;
    std::map<int, std::size_t> at;
    for (std::size_t node = 1; node < nodes_.size(); ++node) {
        const int id = static_cast<int>(node);
        at[id] = 0;
        if (nodes_[node].folder)
            entries[id] = survivors_of_folder(nodes_[node], seed);
        else
            contents[id] = survivors(nodes_[node], seed);
        const std::size_t count = nodes_[node].folder ? entries[id].size() : contents[id].size();
        if (count > 1) {
            open.push_back(node);
            limits.push_back(count);
        }
    }
    std::set<Tree> result;
    for (const auto& pick : picks(limits, few_trees, seed)) {
        for (std::size_t i = 0; i < open.size(); ++i)
            at[static_cast<int>(open[i])] = pick[i];
        Tree tree;
        collect(
            tree, "", 1, [&](int node) -> const auto& { return entries.at(node)[at.at(node)]; },
            [&](int node) {
                return nodes_[static_cast<std::size_t>(node)].folder
                           ? std::nullopt
                           : std::optional(contents.at(node)[at.at(node)]);
            });
        result.insert(std::move(tree));
    }
    return {result.begin(), result.end()};
}

} // namespace truestep::storage::memory
