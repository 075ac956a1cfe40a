// Saves SCAPE's checkpoints so that a crash leaves a complete one, and restores them.
#include <truestep/distributed/scape/checkpoint.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <truestep/distributed/throws_on_all.hpp>
#include <truestep/problem/digest.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/tunable.hpp>
#include <truestep/storage/checkpoint.hpp>

#include "manifest.hpp"
#include "rank_files.hpp"

namespace truestep::distributed::scape {

namespace {

namespace fs = std::filesystem;
using storage::FileKind;
using storage::FileSystem;
using storage::make_lasting_folder;
using storage::require_none;

using File = Manifest::File;

/// Calls take(bytes) with a whole file, in pieces of whole words except for the last.
template <class Take>
void read_through(const storage::InputFile& file, const fs::path& path, const Take& take) {
    constexpr auto largest = problem::tunable<std::uint64_t>("read_piece");
    std::vector<char> buffer(std::min(largest, (file.size() / 8 + 1) * 8));
    for (std::uint64_t at = 0;;) {
        std::size_t count = 0;
        std::error_code error;
        for (std::size_t more = 1; more > 0 && count < buffer.size() && !error; count += more)
            more = file.read(at + count, std::as_writable_bytes(std::span(buffer)).subspan(count), error);
        require_none(error, path, "it cannot be read", "the checkpoint is not complete");
        take(std::string_view(buffer.data(), count));
        at += count;
        if (count < buffer.size())
            return;
    }
}

std::unique_ptr<const storage::InputFile> open_to_read(const FileSystem& files, const fs::path& path) {
    // Opening a pipe would wait for its writer.
    if (const FileKind kind = files.kind(path); kind == FileKind::folder || kind == FileKind::other)
        throw Error(path.string() + ": it cannot be read: it is not a file; use another checkpoint");
    std::error_code error;
    std::unique_ptr<const storage::InputFile> file = files.open(path, error);
    require_none(error, path, "it cannot be read", "the checkpoint is not complete");
    return file;
}

/// A file's size and a 64-bit checksum, which reveals a change of any one byte.
File measure(const storage::InputFile& file, const fs::path& path) {
    File result{0, 0x9ae1'6a3b'2f90'404fU};
    read_through(file, path, [&](std::string_view bytes) {
        for (std::size_t at = 0; at < bytes.size(); at += 8) {
            std::uint64_t word = 0;
            std::memcpy(&word, bytes.data() + at, std::min<std::size_t>(8, bytes.size() - at));
            result.checksum = std::rotl((result.checksum ^ word) * 0x9e37'79b9'7f4a'7c15U, 27);
        }
        result.bytes += bytes.size();
    });
    return result;
}

/// Makes the names in a folder survive a crash of the machine.
void sync_folder(FileSystem& files, const fs::path& folder) {
    require_none(files.sync_folder(folder), folder, "could not be made to last");
}

void write_manifest(FileSystem& files, const fs::path& path, const Scape& optimizer,
                    const std::vector<File>& measured) {
    Manifest manifest{
        optimizer.steps(), problem::model_digest(optimizer.problem(), optimizer.density()), {}};
    for (std::size_t rank = 0; rank < measured.size(); ++rank)
        manifest.ranks.push_back({optimizer.ranges()[rank], measured[rank]});
    const std::string text =
        manifest_text(manifest, problem::model_text(optimizer.problem(), optimizer.density()));
    std::error_code error;
    const auto file = files.create(path, error);
    if (!error)
        static_cast<void>(storage::write_all(*file, std::as_bytes(std::span(text)), error));
    if (!error)
        error = file->sync();
    if (!error)
        error = file->close();
    require_none(error, path, "could not be written", "check the space on the disk");
}

fs::path manifest_path(const fs::path& checkpoint) {
    return checkpoint / "manifest.json";
}

std::string read_manifest(const FileSystem& files, const fs::path& path) {
    if (files.kind(path) == FileKind::none)
        throw Error(path.string() +
                    ": there is no manifest that can be read; give the path of a complete checkpoint");
    std::string text;
    read_through(*open_to_read(files, path), path, [&](std::string_view piece) { text += piece; });
    return text;
}

/// Opens one rank's file after it has been compared with the manifest.
storage::SafetensorsFile open_rank_file(const FileSystem& files, const fs::path& checkpoint,
                                        const Manifest& manifest, std::size_t rank) {
    const fs::path path = checkpoint / rank_file(rank);
    auto file = open_to_read(files, path);
    const File found = measure(*file, path);
    if (found.bytes != manifest.ranks[rank].file.bytes)
        throw Error(path.string() + ": it has " + std::to_string(found.bytes) +
                    " bytes, the manifest says " + std::to_string(manifest.ranks[rank].file.bytes) +
                    "; use another checkpoint");
    if (found.checksum != manifest.ranks[rank].file.checksum)
        throw Error(path.string() + ": its checksum is not the manifest's; use another checkpoint");
    // The measured file is read, even if another file takes its name meanwhile.
    return {path, std::move(file)};
}

/// A folder with the name of another step was renamed or copied; latest_checkpoint would return it
/// for the wrong step.
void require_own_name(const fs::path& checkpoint, Index step) {
    const fs::path folder = checkpoint.has_filename() ? checkpoint : checkpoint.parent_path();
    const auto named = storage::number_in("step", folder.filename().string());
    if (named && *named != step)
        throw Error(checkpoint.string() + ": its manifest is of step " + std::to_string(step) +
                    "; give the folder that name, or use another checkpoint");
}

RankState read_state(const FileSystem& from, const fs::path& checkpoint, const std::string& manifest_text,
                     const Scape& optimizer, int rank) {
    const Index d = optimizer.problem().layout.size();
    const Manifest manifest = parse_manifest(manifest_text, manifest_path(checkpoint).string(), d);
    if (manifest.model != problem::model_digest(optimizer.problem(), optimizer.density()))
        throw Error(checkpoint.string() +
                    ": it is of another model, other settings or another density schedule; "
                    "restore it with those it was saved with");
    require_own_name(checkpoint, manifest.step);
    std::vector<storage::SafetensorsFile> files;
    for (std::size_t other = 0; other < manifest.ranks.size(); ++other)
        files.push_back(open_rank_file(from, checkpoint, manifest, other));

    RankState state{manifest.step,
                    {},
                    read_residual(files, rank, optimizer.problem().workers, static_cast<std::size_t>(d)),
                    {},
                    to_mask(files[0].read_u8("current_mask"), d, files[0].path().string()),
                    to_mask(files[0].read_u8("coming_mask"), d, files[0].path().string()),
                    RankState::least_exponent};
    if (format_of(optimizer.problem().settings.payload) == problem::Payload::e5m2)
        state.exponent = read_exponent(files);
    for (std::size_t other = 0; other < files.size(); ++other) {
        const problem::Range& range = manifest.ranks[other].range;
        const auto parameters =
            read_exactly(files[other], "parameters", static_cast<std::size_t>(range.size()));
        const auto moment = read_exactly(
            files[other], "moment",
            static_cast<std::size_t>(state.current.offset(range.end) - state.current.offset(range.begin)));
        state.parameters.insert(state.parameters.end(), parameters.begin(), parameters.end());
        state.packed_moment.insert(state.packed_moment.end(), moment.begin(), moment.end());
    }
    return state;
}

} // namespace

fs::path save_checkpoint(Scape& optimizer, Communicator& communicator, const fs::path& folder,
                         FileSystem& files) {
    std::optional<RankState> state;
    const fs::path place = folder.empty() ? "." : folder;
    const std::string name = storage::numbered_name("step", optimizer.steps());
    fs::path finished = folder / name;
    const fs::path partial = folder / (name + ".partial");
    const auto me = static_cast<std::size_t>(communicator.rank());
    throws_on_all(communicator, [&] {
        state = optimizer.state();
        if (me != 0)
            return;
        make_lasting_folder(files, place);
        if (files.kind(partial) != FileKind::none) {
            // It may be an old checkpoint that was exchanged with one whose new name is not yet
            // safe.
            sync_folder(files, place);
            require_none(remove_all(files, partial), partial, "a left-over could not be removed",
                         "remove it");
        }
        require_none(files.make_folder(partial), partial, "the folder could not be made",
                     "check the space on the disk");
    });

    File mine;
    throws_on_all(communicator, [&] {
        const fs::path path = partial / rank_file(me);
        write_rank_file(files, path, *state, optimizer.ranges()[me], me == 0,
                        format_of(optimizer.problem().settings.payload) == problem::Payload::e5m2);
        mine = measure(*open_to_read(files, path), path);
    });
    const std::vector<File> measured = gather_records(communicator, mine);
    throws_on_all(communicator, [&] {
        if (me != 0)
            return;
        write_manifest(files, manifest_path(partial), optimizer, measured);
        sync_folder(files, partial);
        // A checkpoint of the same step, from another run, is exchanged with the new one.
        if (files.kind(finished) == FileKind::none) {
            require_none(files.rename(partial, finished), finished, "could not be given its name");
            sync_folder(files, place);
        } else {
            require_none(files.exchange(partial, finished), finished, "could not be replaced",
                         "remove it first");
            sync_folder(files, place); // before anything of the old one is removed
            // If it cannot be removed, the next save of this step will try again; this save is
            // complete.
            static_cast<void>(remove_all(files, partial));
        }
    });
    return finished;
}

std::optional<fs::path> latest_checkpoint(const fs::path& folder, const FileSystem& files) {
    return storage::latest_numbered(files, folder, "step", [&](const fs::path& checkpoint) {
        return files.kind(manifest_path(checkpoint)) == FileKind::file;
    });
}

void restore_checkpoint(Scape& optimizer, Communicator& communicator, const fs::path& checkpoint,
                        const FileSystem& files) {
    std::optional<RankState> state;
    std::uint64_t read = 0;
    throws_on_all(communicator, [&] {
        const std::string manifest = read_manifest(files, manifest_path(checkpoint));
        read = checksum(manifest);
        state = read_state(files, checkpoint, manifest, optimizer, communicator.rank());
        // Checked here, because only one rank's residual may be wrong, and the others would wait
        // for it later.
        optimizer.check_restorable(*state);
    });
    // With separate folders, or another run that saves to this one, ranks might continue from two
    // states.
    const std::vector<std::uint64_t> all = gather_records(communicator, read);
    const auto other = std::ranges::adjacent_find(all, std::ranges::not_equal_to());
    if (other != all.end())
        throw Error(
            checkpoint.string() + ": rank " + std::to_string(other - all.begin() + 1) +
            " read another checkpoint than the ranks before it; give all ranks one shared folder, to which "
            "nothing is saved meanwhile");
    optimizer.restore(*state);
}

} // namespace truestep::distributed::scape
