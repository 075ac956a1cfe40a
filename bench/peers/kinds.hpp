#pragma once

#include <truestep/distributed/mask.hpp>
#include <truestep/problem/density.hpp>
#include <truestep/problem/gasloc/settings.hpp>
#include <truestep/problem/partition.hpp>

#include "peers/peer.hpp"

// Each peer's maker; the classes are their files' own.

namespace truestep::peers {

std::unique_ptr<Peer> make_dense(const Setting&, Communicator&, std::span<const float> parameters);
/// Gradients travel as bf16; parameters as fp32, or as bf16 with the fp32 ones kept by their owners.
enum class Gathered { fp32, bf16 };
std::unique_ptr<Peer> make_dense_bf16(const Setting&, Communicator&, std::span<const float> parameters,
                                      Gathered gathered);
std::unique_ptr<Peer> make_adamw(const Setting&, Communicator&, std::span<const float> parameters);
std::unique_ptr<Peer> make_topk(const Setting&, Communicator&, std::span<const float> parameters);
std::unique_ptr<Peer> make_ok_topk(const Setting&, Communicator&, std::span<const float> parameters);
std::unique_ptr<Peer> make_unsharded(const Setting&, Communicator&, std::span<const float> parameters);
std::unique_ptr<Peer> make_scape(const Setting&, Communicator&, std::span<const float> parameters,
                                 problem::Payload payload);
std::unique_ptr<Peer> make_scape_using_up(const Setting&, Communicator&, std::span<const float> parameters);
std::unique_ptr<Peer> make_diloco(const Setting&, Communicator&, std::span<const float> parameters);
std::unique_ptr<Peer> make_gasloc(const Setting&, distributed::Peers&, std::span<const float> parameters);

/// DiLoCo's outer optimizer as its authors have it: rate and Nesterov's momentum.
constexpr float diloco_rate = 0.7F;
constexpr float diloco_momentum = 0.9F;
[[nodiscard]] problem::gasloc::Settings gasloc_settings(const Setting& setting);

/// One tensor of d parameters.
[[nodiscard]] problem::Layout one_tensor(Index size);
/// Of scape: the tensors that it selects in, each by itself, and delta(t).
[[nodiscard]] problem::Layout layout_of(const Setting& setting);
[[nodiscard]] problem::DensitySchedule density_of(const Setting& setting);
/// P ranges of ceil(d/P), as by_shard cuts them.
[[nodiscard]] std::vector<problem::Range> shards(Index size, int ranks);
/// P ranges that begin at whole words of a mask.
[[nodiscard]] std::vector<problem::Range> word_shards(Index size, int ranks);
/// The sizes in bytes of ranges of `width` bytes a coordinate.
[[nodiscard]] std::vector<std::size_t> sizes_of(std::span<const problem::Range> ranges, std::size_t width);
/// Section 4.3's k, of `size` coordinates.
[[nodiscard]] Index count_at(Index size, double density);

/// A mask in a state, and back.
[[nodiscard]] std::vector<std::uint64_t> words_of(const distributed::Mask& mask);
[[nodiscard]] distributed::Mask mask_in(const State& state, const std::string& name, Index size);

} // namespace truestep::peers
