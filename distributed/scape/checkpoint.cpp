#include <scape/distributed/checkpoint.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <scape/problem/digest.hpp>
#include <scape/problem/error.hpp>
#include <scape/storage/safetensors.hpp>

#include "manifest.hpp"

namespace scape::distributed {

namespace {

namespace fs = std::filesystem;
using storage::DataType;

using File = Manifest::File;

std::string step_folder(Index step) {
    std::array<char, 48> text{};
    std::snprintf(text.data(), text.size(), "step-%010lld", static_cast<long long>(step));
    return text.data();
}

/// A file's size and a 64-bit checksum of its bytes, in which a change of any one byte shows.
File measure(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    File result{0, 0x9ae1'6a3b'2f90'404fU};
    std::vector<char> buffer(std::size_t{1} << 20U);
    while (file) {
        file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
        const auto count = static_cast<std::size_t>(file.gcount());
        for (std::size_t at = 0; at < count; at += 8) {
            std::uint64_t word = 0;
            std::memcpy(&word, buffer.data() + at, std::min<std::size_t>(8, count - at));
            result.checksum = std::rotl((result.checksum ^ word) * 0x9e37'79b9'7f4a'7c15U, 27);
        }
        result.bytes += count;
    }
    if (!file.eof())
        throw Error(path.string() + ": it cannot be read; the checkpoint is not complete");
    return result;
}

/// Makes what was written to a file or a folder last, whatever happens to the machine.
void sync(const fs::path& path) {
    const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const bool ok = descriptor >= 0 && fsync(descriptor) == 0;
    const std::string reason = ok ? "" : std::strerror(errno);
    if (descriptor >= 0)
        close(descriptor);
    if (!ok)
        throw Error(path.string() + ": could not be made to last: " + reason + "; check the disk");
}

/// The bits of a mask as bytes of eight coordinates.
std::vector<std::uint8_t> to_bytes(const Mask& mask) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>((mask.size() + 7) / 8));
    std::memcpy(bytes.data(), mask.words(), bytes.size());
    return bytes;
}

Mask to_mask(const std::vector<std::uint8_t>& bytes, Index size, const std::string& where) {
    Mask mask(size);
    if (bytes.size() != static_cast<std::size_t>((size + 7) / 8) ||
        (size % 8 != 0 && (bytes.back() >> static_cast<unsigned>(size % 8)) != 0))
        throw Error(where +
                    ": a mask is of another size or has bits beyond the model; the checkpoint is damaged");
    std::memcpy(mask.words(), bytes.data(), bytes.size());
    mask.count();
    return mask;
}

void write_rank_file(const fs::path& path, const RankState& state, const problem::Range& range,
                     bool with_masks) {
    storage::SafetensorsWriter writer(path, {{"format", checkpoint_format}});
    const auto part = [&](Index begin, Index end, const std::vector<float>& values) {
        return std::span<const float>(values).subspan(static_cast<std::size_t>(begin),
                                                      static_cast<std::size_t>(end - begin));
    };
    const auto residual = std::span<const float>(state.residual);
    const auto parameters = part(range.begin, range.end, state.parameters);
    const auto moment =
        part(state.current.offset(range.begin), state.current.offset(range.end), state.packed_moment);
    const auto masks = with_masks ? std::array{to_bytes(state.current), to_bytes(state.coming)}
                                  : std::array<std::vector<std::uint8_t>, 2>{};
    writer.declare("residual", DataType::f32, {residual.size()});
    writer.declare("parameters", DataType::f32, {parameters.size()});
    writer.declare("moment", DataType::f32, {moment.size()});
    if (with_masks) {
        writer.declare("current_mask", DataType::u8, {masks[0].size()});
        writer.declare("coming_mask", DataType::u8, {masks[1].size()});
    }
    writer.write_f32("residual", residual);
    writer.write_f32("parameters", parameters);
    writer.write_f32("moment", moment);
    if (with_masks) {
        writer.write_u8("current_mask", masks[0]);
        writer.write_u8("coming_mask", masks[1]);
    }
    writer.finish();
    sync(path);
}

void write_manifest(const fs::path& path, const Scape& optimizer, const std::vector<File>& files) {
    Manifest manifest{
        optimizer.steps(), problem::model_digest(optimizer.problem(), optimizer.density()), {}};
    for (std::size_t rank = 0; rank < files.size(); ++rank)
        manifest.ranks.push_back({optimizer.ranges()[rank], files[rank]});
    std::ofstream file(path);
    file << manifest_text(manifest, problem::model_text(optimizer.problem(), optimizer.density()));
    file.close();
    if (!file)
        throw Error(path.string() + ": could not be written; check the space on the disk");
    sync(path);
}

Manifest read_manifest(const fs::path& checkpoint, Index size) {
    const fs::path path = checkpoint / "manifest.json";
    std::ifstream file(path);
    if (!file)
        throw Error(path.string() +
                    ": there is no manifest that can be read; give the path of a complete checkpoint");
    return parse_manifest(file, path.string(), size);
}

/// One rank's file, once it has been found to be what the manifest says.
storage::SafetensorsFile open_rank_file(const fs::path& checkpoint, const Manifest& manifest,
                                        std::size_t rank) {
    const fs::path path = checkpoint / rank_file(rank);
    const File found = measure(path);
    if (found.bytes != manifest.ranks[rank].file.bytes)
        throw Error(path.string() + ": it has " + std::to_string(found.bytes) +
                    " bytes, the manifest says " + std::to_string(manifest.ranks[rank].file.bytes) +
                    "; use another checkpoint");
    if (found.checksum != manifest.ranks[rank].file.checksum)
        throw Error(path.string() + ": its checksum is not the manifest's; use another checkpoint");
    return storage::SafetensorsFile(path);
}

std::vector<float> read_exactly(const storage::SafetensorsFile& file, const std::string& tensor,
                                std::size_t count) {
    std::vector<float> values = file.read_f32(tensor);
    if (values.size() != count)
        throw Error(file.path().string() + ": " + tensor + " has " + std::to_string(values.size()) +
                    " values, expected " + std::to_string(count) + "; the checkpoint is mixed up");
    return values;
}

/// Section 7: its own residual for the same number of workers, the ordered mean of all for another.
std::vector<float> read_residual(const std::vector<storage::SafetensorsFile>& files, int rank, int workers,
                                 std::size_t size) {
    if (files.size() == static_cast<std::size_t>(workers))
        return read_exactly(files[static_cast<std::size_t>(rank)], "residual", size);
    std::vector<float> sum = read_exactly(files[0], "residual", size);
    for (std::size_t other = 1; other < files.size(); ++other) {
        const std::vector<float> next = read_exactly(files[other], "residual", size);
        for (std::size_t i = 0; i < size; ++i)
            sum[i] = sum[i] + next[i];
    }
    const auto count = static_cast<float>(static_cast<double>(files.size()));
    for (float& value : sum)
        value = value / count;
    return sum;
}

RankState read_state(const fs::path& checkpoint, const Scape& optimizer, int rank) {
    const Index d = optimizer.problem().layout.size();
    const Manifest manifest = read_manifest(checkpoint, d);
    if (manifest.model != problem::model_digest(optimizer.problem(), optimizer.density()))
        throw Error(checkpoint.string() +
                    ": it is of another model, other settings or another density schedule; "
                    "restore it with those it was saved with");
    std::vector<storage::SafetensorsFile> files;
    for (std::size_t other = 0; other < manifest.ranks.size(); ++other)
        files.push_back(open_rank_file(checkpoint, manifest, other));

    RankState state{manifest.step,
                    {},
                    read_residual(files, rank, optimizer.problem().workers, static_cast<std::size_t>(d)),
                    {},
                    to_mask(files[0].read_u8("current_mask"), d, files[0].path().string()),
                    to_mask(files[0].read_u8("coming_mask"), d, files[0].path().string())};
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

/// Does the work on this rank; if it failed on any, throws on all, naming the first that failed.
template <class Work>
void together(Communicator& communicator, const Work& work) {
    std::array<char, 400> reason{};
    try {
        work();
    } catch (const std::exception& error) {
        std::snprintf(reason.data(), reason.size(), "%s", error.what());
    }
    const auto reasons = gather_records(communicator, reason);
    for (std::size_t rank = 0; rank < reasons.size(); ++rank)
        if (reasons[rank][0] != '\0')
            throw Error("rank " + std::to_string(rank) + ": " + reasons[rank].data());
}

} // namespace

fs::path save_checkpoint(Scape& optimizer, Communicator& communicator, const fs::path& folder) {
    const RankState state = optimizer.state();
    fs::path finished = folder / step_folder(state.step);
    const fs::path partial = folder / (step_folder(state.step) + ".partial");
    const auto me = static_cast<std::size_t>(communicator.rank());
    if (me == 0)
        together(communicator, [&] {
            std::error_code error;
            fs::remove_all(partial, error);
            if (!fs::create_directories(partial, error))
                throw Error(partial.string() + ": the folder could not be made: " + error.message());
        });
    else
        together(communicator, [] {});

    File mine;
    together(communicator, [&] {
        const fs::path path = partial / rank_file(me);
        write_rank_file(path, state, optimizer.ranges()[me], me == 0);
        mine = measure(path);
    });
    const std::vector<File> files = gather_records(communicator, mine);
    together(communicator, [&] {
        if (me != 0)
            return;
        write_manifest(partial / "manifest.json", optimizer, files);
        sync(partial);
        // A checkpoint of the same step, from a run that went another way, changes places with the new one.
        if (fs::exists(finished)) {
            if (renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, finished.c_str(), RENAME_EXCHANGE) != 0)
                throw Error(finished.string() + ": could not be replaced: " + std::strerror(errno) +
                            "; remove it first");
            fs::remove_all(partial);
        } else {
            fs::rename(partial, finished);
        }
        sync(folder);
        sync(fs::absolute(folder / "..")); // the folder may be new
    });
    return finished;
}

std::optional<fs::path> latest_checkpoint(const fs::path& folder) {
    std::optional<fs::path> latest;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
        const std::string name = entry.path().filename().string();
        const bool complete = name.starts_with("step-") && name.find('.') == std::string::npos &&
                              fs::exists(entry.path() / "manifest.json");
        // Names have ten digits, so their order is that of the steps.
        if (complete && (!latest || latest->filename().string() < name))
            latest = entry.path();
    }
    return latest;
}

void restore_checkpoint(Scape& optimizer, Communicator& communicator, const fs::path& checkpoint) {
    std::optional<RankState> state;
    together(communicator, [&] { state = read_state(checkpoint, optimizer, communicator.rank()); });
    optimizer.restore(*state);
}

} // namespace scape::distributed
