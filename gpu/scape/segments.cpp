// Cuts the segments of a problem into tiles, groups and rows for the blocks of SCAPE's kernels.
#include "segments.hpp"

#include <cstddef>
#include <string>

#include <truestep/problem/error.hpp>

namespace truestep::gpu::scape {

namespace {

SegmentCode kind_of(Index n, Index k) {
    switch (distributed::scape::code_of(n, k)) {
    case distributed::scape::SegmentCode::nothing:
        return SegmentCode::nothing;
    case distributed::scape::SegmentCode::bitmap:
        return SegmentCode::bitmap;
    case distributed::scape::SegmentCode::positions:
        break;
    }
    return SegmentCode::positions;
}

} // namespace

Index checked_size(const problem::Problem& problem) {
    constexpr Index most = (Index{1} << 32) - tile;
    for (const problem::Segment& segment : problem.segments)
        if (segment.size() > most)
            throw Error("segment of " + problem.layout.describe(segment.begin) + ": " +
                        std::to_string(segment.size()) + " coordinates; blocks count up to " +
                        std::to_string(most) + " in one");
    return problem.layout.size();
}

std::vector<Group> groups_of(std::span<const MaskCode::Part> own, Index group_tiles) {
    std::vector<Group> groups;
    for (std::size_t number = 0; number < own.size(); ++number)
        for (Index begin = own[number].begin; begin < own[number].end;) {
            const Index end = std::min(own[number].end, (begin / tile + group_tiles) * tile);
            groups.push_back({begin, end, static_cast<Index>(number), cell_count(groups)});
            begin = end;
        }
    return groups;
}

WatchedTiles watched_tiles_of(const std::vector<Group>& groups) {
    WatchedTiles result;
    if (groups.empty())
        return result;
    result.first = std::ranges::min(groups, {}, &Group::begin).begin / tile;
    const Index end = std::ranges::max(groups, {}, &Group::end).end;
    result.tiles.assign(static_cast<std::size_t>((end + tile - 1) / tile - result.first), {-1, 0});
    for (const Group& group : groups)
        for (int cell = 0; cell < cells_of(group); ++cell)
            if (const Index begin = first_tile(group) + cell * tile; is_whole(group, begin))
                result.tiles[static_cast<std::size_t>(begin / tile - result.first)] = {
                    group.first_cell + cell, group.segment};
    return result;
}

Index cell_count(const std::vector<Group>& groups) {
    return groups.empty() ? 0 : groups.back().first_cell + cells_of(groups.back());
}

std::vector<Group> code_tiles_of(std::span<const MaskCode::Part> all) {
    std::vector<Group> parts;
    for (std::size_t number = 0; number < all.size(); ++number)
        for (Index begin = all[number].begin; begin < all[number].end; begin += code_tile)
            parts.push_back(
                {begin, std::min(all[number].end, begin + code_tile), static_cast<Index>(number), 0});
    return parts;
}

Pieces pieces_of(std::span<const MaskCode::Part> all, Index size) {
    Pieces result;
    for (std::size_t number = 0; number < all.size(); ++number)
        for (Index begin = all[number].begin; begin < all[number].end;) {
            const Index end = std::min(all[number].end, (begin / decode_chunk + 1) * decode_chunk);
            result.pieces.push_back({begin, end, static_cast<Index>(number), 0});
            begin = end;
        }
    std::ranges::sort(result.pieces, {}, &Group::begin);
    Index piece = 0;
    const auto count = static_cast<Index>(result.pieces.size());
    for (Index chunk = 0; chunk < size; chunk += decode_chunk) {
        while (piece < count && result.pieces[static_cast<std::size_t>(piece)].begin < chunk)
            ++piece;
        result.first.push_back(piece);
    }
    result.first.push_back(count);
    return result;
}

std::vector<Segment> rows_of(std::span<const MaskCode::Part> segments, const std::vector<Group>& parts) {
    std::vector<Segment> rows;
    Index code = 0;
    Index part = 0;
    const auto count = static_cast<Index>(parts.size());
    for (std::size_t number = 0; number < segments.size(); ++number) {
        const auto& [begin, end, k] = segments[number];
        const Index first = part;
        while (part < count && parts[static_cast<std::size_t>(part)].segment == static_cast<Index>(number))
            ++part;
        rows.push_back({begin, end, k, first, part, code, kind_of(end - begin, k)});
        code += static_cast<Index>(distributed::scape::coded_bytes(end - begin, k));
    }
    return rows;
}

} // namespace truestep::gpu::scape
