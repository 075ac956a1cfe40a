// Writes and reads one rank's file of a SCAPE checkpoint, also for another number of ranks.
#include "rank_files.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>

#include <truestep/problem/error.hpp>

#include "manifest.hpp"

namespace truestep::distributed::scape {

namespace {

using storage::DataType;

/// The bits of a mask as bytes of eight coordinates.
std::vector<std::uint8_t> to_bytes(const Mask& mask) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>((mask.size() + 7) / 8));
    std::memcpy(bytes.data(), mask.words(), bytes.size());
    return bytes;
}

} // namespace

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

void write_rank_file(storage::FileSystem& files, const std::filesystem::path& path, const RankState& state,
                     const problem::Range& range, bool with_masks, bool with_exponent) {
    storage::SafetensorsWriter writer(path, {{"format", checkpoint_format}}, files);
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
    if (with_exponent)
        writer.declare("exponent", DataType::f64, {1});
    writer.write_f32("residual", residual);
    writer.write_f32("parameters", parameters);
    writer.write_f32("moment", moment);
    if (with_masks) {
        writer.write_u8("current_mask", masks[0]);
        writer.write_u8("coming_mask", masks[1]);
    }
    if (with_exponent)
        writer.write_f64("exponent", std::array{static_cast<double>(state.exponent)});
    writer.finish();
}

std::vector<float> read_exactly(const storage::SafetensorsFile& file, const std::string& tensor,
                                std::size_t count) {
    std::vector<float> values = file.read_f32(tensor);
    if (values.size() != count)
        throw Error(file.path().string() + ": " + tensor + " has " + std::to_string(values.size()) +
                    " values, expected " + std::to_string(count) + "; the checkpoint is mixed up");
    return values;
}

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

int read_exponent(const std::vector<storage::SafetensorsFile>& files) {
    int greatest = RankState::least_exponent - RankState::kept;
    for (const storage::SafetensorsFile& file : files) {
        const std::vector<double> exponent = file.read_f64("exponent");
        if (exponent.size() != 1 || !(std::abs(exponent[0]) < 2.0 * RankState::kept) ||
            exponent[0] != std::floor(exponent[0]) ||
            !RankState::is_exponent(static_cast<int>(exponent[0])))
            throw Error(file.path().string() +
                        ": exponent must be from -126 to 127, or 256 less; the checkpoint is damaged");
        greatest = std::max(greatest, static_cast<int>(exponent[0]));
    }
    return greatest;
}

} // namespace truestep::distributed::scape
