// Opens a trace of one file or a file per rank, checks that they agree, and joins them.
#include <truestep/trace/bundle.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/trace/config.hpp>
#include <truestep/trace/parts.hpp>
#include <truestep/trace/ranks.hpp>

#include "metadata.hpp"

namespace truestep::trace {

namespace {

namespace fs = std::filesystem;
using storage::SafetensorsFile;
using storage::TensorEntry;

using Config = nlohmann::ordered_json;

Config config_of_run(const SafetensorsFile& file) {
    return Config::parse(without_rank(config_of(file)));
}

/// A rank that does not know what belongs to others leaves null in a list; their files fill it in.
void fill_in(Config& one, Config& other) {
    for (const auto& item : one.items()) {
        Config& mine = item.value();
        if (!mine.is_array() || !other.contains(item.key()) || other[item.key()].size() != mine.size())
            continue;
        Config& theirs = other[item.key()];
        for (std::size_t i = 0; i < mine.size() && theirs.is_array(); ++i)
            if (mine[i].is_null())
                mine[i] = theirs[i];
            else if (theirs[i].is_null())
                theirs[i] = mine[i];
    }
}

/// Two files belong to one run if they agree in everything but the rank.
void check_alike(const SafetensorsFile& first, const Config& wanted, const SafetensorsFile& other,
                 const Config& found) {
    if (nlohmann::json(found) == nlohmann::json(wanted))
        return;
    std::string key;
    for (const auto* one : {&wanted, &found})
        for (const auto& item : one->items())
            if (key.empty() && (!wanted.contains(item.key()) || !found.contains(item.key()) ||
                                wanted[item.key()] != found[item.key()]))
                key = item.key();
    const auto shown = [&](const Config& object) {
        return !object.contains(key)        ? "not there"
               : object[key].is_primitive() ? object[key].dump()
                                            : "another list";
    };
    throw Error(begin_of_config_errors(other) + ": " + key + " is " + shown(found) + ", and in " +
                first.path().string() + " " + shown(wanted) +
                "; the ranks of one run have the same settings");
}

/// Compares a tensor that two files hold, piece by piece.
void check_same(const SafetensorsFile& first, const SafetensorsFile& other, const TensorEntry& entry) {
    const TensorEntry& wanted = *first.find(entry.name);
    if (wanted.type != entry.type || wanted.shape != entry.shape)
        throw Error(other.path().string() + ": tensor " + entry.name +
                    " has another type or shape than in " + first.path().string() +
                    "; the ranks of one run hold the same");
    constexpr std::uint64_t piece = 1 << 20;
    std::vector<std::byte> a(piece);
    std::vector<std::byte> b(piece);
    for (std::uint64_t at = 0; at < entry.end - entry.begin; at += piece) {
        const auto count = static_cast<std::size_t>(std::min(piece, entry.end - entry.begin - at));
        first.read_raw(wanted, at, std::span(a).first(count));
        other.read_raw(entry, at, std::span(b).first(count));
        const auto apart =
            std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(count), b.begin());
        const auto byte = at + static_cast<std::uint64_t>(apart.first - a.begin());
        if (byte < at + count)
            throw Error(other.path().string() + ": " + entry.name + " is not what " +
                        first.path().string() + " has, first at element " +
                        std::to_string(byte / element_size(entry.type)) +
                        "; all ranks of a run start alike, and what several hold is the same in every bit");
    }
}

std::vector<std::byte> bytes_of(const SafetensorsFile& file, const TensorEntry& entry) {
    std::vector<std::byte> bytes(entry.end - entry.begin);
    file.read_raw(entry, 0, bytes);
    return bytes;
}

} // namespace

Bundle::Bundle(const fs::path& path) : path_(path) {
    if (names_ranks(path))
        open_ranks();
    else
        files_.emplace_back(path);
    const SafetensorsFile& first = files_.front();
    if (config_.empty())
        config_ = config_of(first);
    if (const auto of = rank_in(config_of(first), begin_of_config_errors(first))) {
        if (static_cast<std::size_t>(of->workers) != files_.size())
            throw Error(path.string() + ": it is what rank " + std::to_string(of->rank) + " of " +
                        std::to_string(of->workers) +
                        " has written; give every rank's file, or a star for the rank's number");
        config_ = without_rank(config_);
        of_ranks_ = true;
    }
    source_ = metadata_entry(first, "source");
    gather();
}

void Bundle::open_ranks() {
    files_.emplace_back(file_of_rank(path_, 0));
    const SafetensorsFile& first = files_.front();
    const auto of_first = rank_in(config_of(first), begin_of_config_errors(first));
    const int workers = of_first ? of_first->workers : 1;
    std::vector<bool> there(static_cast<std::size_t>(workers), true);
    for (int rank = 1; rank < workers; ++rank)
        there[static_cast<std::size_t>(rank)] = fs::exists(file_of_rank(path_, rank));
    if (std::ranges::find(there, false) != there.end())
        throw Error(path_.string() + ": " + missing_ranks(there) + "; give every rank's file");
    Config run;
    for (int rank = 0; rank < workers; ++rank) {
        if (rank > 0)
            files_.emplace_back(file_of_rank(path_, rank));
        const SafetensorsFile& file = files_.back();
        const std::string what = begin_of_config_errors(file);
        const auto of = rank_in(config_of(file), what);
        if (!of || of->rank != rank)
            throw Error(what + ": rank is " + (of ? std::to_string(of->rank) : "not there") +
                        "; by its name the file is of rank " + std::to_string(rank));
        Config of_rank = config_of_run(file);
        if (rank == 0)
            run = of_rank;
        fill_in(run, of_rank);
        check_alike(files_.front(), run, file, of_rank);
    }
    config_ = run.dump();
}

void Bundle::gather() {
    for (std::size_t i = 0; i < files_.size(); ++i)
        for (const TensorEntry& entry : files_[i].tensors()) {
            const auto [at, is_new] = holders_.emplace(entry.name, i);
            if (is_new)
                names_.push_back(entry.name);
            else
                check_same(files_[at->second], files_[i], entry);
        }
}

const SafetensorsFile& Bundle::holder(std::string_view tensor) const {
    const auto found = holders_.find(tensor);
    return files_[found == holders_.end() ? 0 : found->second];
}

std::string algorithm_of(const fs::path& path) {
    const SafetensorsFile file(names_ranks(path) ? file_of_rank(path, 0) : path);
    const std::string what = begin_of_config_errors(file);
    const nlohmann::json config = parse_json(config_of(file), what);
    return ObjectReader(config, what).text("algorithm");
}

void join(const fs::path& run, const fs::path& output) {
    const Bundle bundle(run);
    if (!bundle.of_ranks())
        throw Error(run.string() + ": it holds a whole run already; give the files of its ranks");
    std::vector<Part> parts;
    for (const std::string& name : bundle.names()) {
        const SafetensorsFile& file = bundle.holder(name);
        const TensorEntry& entry = *file.find(name);
        if (fs::exists(output) && fs::equivalent(output, file.path()))
            throw Error(output.string() + ": it is one of the files that are joined; give another name");
        parts.push_back({name, entry.type, entry.shape, [&file, &entry] { return bytes_of(file, entry); }});
    }
    write_parts(output, bundle.source(), bundle.config(), std::move(parts));
}

} // namespace truestep::trace
