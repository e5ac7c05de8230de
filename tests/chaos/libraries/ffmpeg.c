/* SPDX-License-Identifier: MIT
 *
 * FFmpeg: samples are packed and unpacked without loss; a picture is scaled. */
#include "library.h"

#include <libavcodec/avcodec.h>
#include <libavutil/avutil.h>
#include <libswscale/swscale.h>

#define SIDE 16

static AVCodecContext *open_codec(const AVCodec *codec)
{
    AVCodecContext *context = codec != NULL ? avcodec_alloc_context3(codec) : NULL;
    if (context == NULL)
        return NULL;
    context->width = context->height = SIDE;
    context->pix_fmt = AV_PIX_FMT_RGB24;
    context->time_base = (AVRational){ 1, 25 };
    context->thread_count = 1;
    if (avcodec_open2(context, codec, NULL) != 0)
        avcodec_free_context(&context);
    return context;
}

static AVFrame *make_picture(unsigned variant)
{
    AVFrame *picture = av_frame_alloc();
    if (picture == NULL)
        return NULL;
    picture->width = picture->height = SIDE;
    picture->format = AV_PIX_FMT_RGB24;
    if (av_frame_get_buffer(picture, 0) != 0)
        av_frame_free(&picture);
    for (int y = 0; y < SIDE && picture != NULL; y++) {
        for (int x = 0; x < SIDE * 3; x++)
            picture->data[0][y * picture->linesize[0] + x] = (uint8_t)(x * y / ((int)variant + 1));
    }
    return picture;
}

/* Through a codec that packs or unpacks: from the frame into the packet, or the other way. */
static int pack(AVCodecContext *context, AVFrame *picture, AVPacket *packet)
{
    return avcodec_send_frame(context, picture) == 0 && avcodec_receive_packet(context, packet) == 0 ? 0 : -1;
}

static int unpack(AVCodecContext *context, AVPacket *packet, AVFrame *picture)
{
    return avcodec_send_packet(context, packet) == 0 && avcodec_receive_frame(context, picture) == 0 ? 0 : -1;
}

static int scale(const AVFrame *picture, uint64_t *sum)
{
    uint8_t out[SIDE / 2 * SIDE / 2];
    uint8_t *const planes[4] = { out };
    const int strides[4] = { SIDE / 2 };
    struct SwsContext *context = sws_getContext(SIDE, SIDE, AV_PIX_FMT_RGB24, SIDE / 2, SIDE / 2, AV_PIX_FMT_GRAY8,
                                                SWS_BILINEAR, NULL, NULL, NULL);
    if (context == NULL)
        return -1;
    sws_scale(context, (const uint8_t *const *)picture->data, picture->linesize, 0, SIDE, planes, strides);
    chaos_add(sum, out, sizeof out);
    sws_freeContext(context);
    return 0;
}

static int run(unsigned variant, uint64_t *sum)
{
    AVCodecContext *packer = open_codec(avcodec_find_encoder(AV_CODEC_ID_PPM));
    AVCodecContext *unpacker = open_codec(avcodec_find_decoder(AV_CODEC_ID_PPM));
    AVFrame *picture = make_picture(variant);
    AVFrame *read = av_frame_alloc();
    AVPacket *packet = av_packet_alloc();
    int error = packer != NULL && unpacker != NULL && picture != NULL && read != NULL && packet != NULL ? 0 : -1;
    if (error == 0)
        error = pack(packer, picture, packet);
    if (error == 0)
        error = unpack(unpacker, packet, read);
    if (error == 0)
        error = scale(read, sum);
    av_packet_free(&packet);
    av_frame_free(&read);
    av_frame_free(&picture);
    avcodec_free_context(&unpacker);
    avcodec_free_context(&packer);
    return error;
}

static void prepare(void)
{
    av_log_set_level(AV_LOG_QUIET);
}

const struct chaos_library CHAOS_ONE = {
    .name = "FFmpeg",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .prepare = prepare,
    .run = run,
    .modules = "libavcodec:libavutil:libswscale:libswresample",
    .version = av_version_info,
};
